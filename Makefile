# `make demo` and `make test` need nothing but python3 >= 3.11 and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.PHONY: demo test test-all lint docs bench wheel clean

$(BIN)/python:
	@$(PYTHON) -m venv $(VENV)

# One stamp per set of extras, so that nobody waits for what they do not use.
$(VENV)/.has-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(subst +,$(comma),$*)]"
	@touch $@
comma := ,

# Each part says what it does before it does it, and pip shows what it downloads.
demo:
	@test -x $(BIN)/python || echo "1/3 Making a Python environment in $(VENV), which everything goes to. A few seconds …"
	@$(MAKE) --no-print-directory $(BIN)/python
	@test -e $(VENV)/.installed || echo "2/3 Installing lineal, NumPy, SciPy, scikit-learn, Numba and others: about 150 MB …"
	@$(MAKE) --no-print-directory $(VENV)/.installed
	@echo "3/3 lineal demo"
	@$(BIN)/lineal demo

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --disable-pip-version-check -e .
	@touch $@

test: $(VENV)/.has-dev+report
	$(BIN)/python -m pytest -m "not slow" -n $(JOBS) --dist worksteal -q

test-all: $(VENV)/.has-dev+report
	LINEAL_FAULTS=20 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

lint: $(VENV)/.has-dev+report
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.has-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.has-bench
	$(BIN)/python -m benchmarks

# Distributions in dist/: with compiled kernels for this platform (which takes minutes), without them, and the sources.
wheel: $(VENV)/.has-dev+report
	$(BIN)/python wheels/build.py

clean:
	rm -rf $(VENV) site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
