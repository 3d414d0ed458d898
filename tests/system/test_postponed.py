"""Imports that wait for the first use of a module leave nothing behind."""

import importlib
import subprocess
import sys

import pytest

from lineal.system.postponed import postponed

pytestmark = pytest.mark.core


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    """A package whose import takes note of itself, and one that imports it without using it."""
    (tmp_path / "heavy.py").write_text(
        "import sys\nsys.heavy_imports = getattr(sys, 'heavy_imports', 0) + 1\nvalue = 7\n"
    )
    (tmp_path / "light.py").write_text("import heavy\n\n\ndef use():\n    return heavy.value\n")
    (tmp_path / "hasty.py").write_text("from heavy import value\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "heavy_imports", 0, raising=False)
    yield
    for name in ("heavy", "light", "hasty"):
        sys.modules.pop(name, None)


def test_a_module_is_imported_when_it_is_used(heavy):
    with postponed("heavy"):
        light = importlib.import_module("light")
    assert sys.heavy_imports == 0
    assert "heavy" not in sys.modules
    assert light.use() == 7
    assert sys.heavy_imports == 1
    assert sys.modules["heavy"].value == 7
    assert light.use() == 7
    assert sys.heavy_imports == 1


def test_names_that_are_imported_from_it_are_real(heavy):
    with postponed("heavy"):
        assert importlib.import_module("hasty").value == 7
    assert sys.heavy_imports == 1
    assert sys.modules["heavy"].value == 7


def test_others_import_the_real_module(heavy):
    with postponed("heavy"):
        importlib.import_module("light")
    assert importlib.import_module("heavy").value == 7
    assert sys.heavy_imports == 1


def test_a_module_that_is_there_stays(heavy):
    real = importlib.import_module("heavy")
    with postponed("heavy"):
        assert importlib.import_module("heavy") is real
    assert sys.modules["heavy"] is real


def test_a_module_that_is_not_installed_is_still_missing():
    with postponed("lineal_no_such_module", "lineal_no_such_package.module"), pytest.raises(ImportError):
        importlib.import_module("lineal_no_such_module")


def test_a_part_of_a_package_that_imports_it_when_it_is_asked_for(tmp_path, monkeypatch):
    """As NumPy does. Afterwards the package is as if nothing had happened."""
    (tmp_path / "lazy").mkdir()
    (tmp_path / "lazy" / "__init__.py").write_text(
        "def __getattr__(name):\n    if name == 'part':\n        import lazy.part as part\n        return part\n"
        "    raise AttributeError(name)\n"
    )
    (tmp_path / "lazy" / "part.py").write_text("value = 7\n")
    (tmp_path / "copier.py").write_text("import lazy\nlazy.part\nfrom lazy import part\nimport lazy.part as same\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        lazy = importlib.import_module("lazy")
        with postponed("lazy.part"):
            copier = importlib.import_module("copier")
        assert "lazy.part" not in sys.modules
        assert "part" not in vars(lazy)
        assert copier.part is copier.same
        assert lazy.part.value == copier.part.value == 7
        assert lazy.part is sys.modules["lazy.part"]
        with postponed("lazy.part"):
            assert lazy.part is sys.modules["lazy.part"]
        assert vars(lazy)["part"].value == 7
    finally:
        for name in ("lazy", "lazy.part", "copier"):
            sys.modules.pop(name, None)


def test_scipy_is_imported_without_the_parts_of_numpy_that_nobody_uses():
    code = """
import sys
import lineal.core.inputs
print([name for name in ("numpy.f2py", "numpy.testing") if name in sys.modules])
import numpy, scipy.optimize
numpy.testing.assert_allclose(scipy.optimize.brentq(lambda x: x - 1.0, 0.0, 3.0), 1.0)
assert numpy.f2py.get_include()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_error_in_the_context_leaves_nothing_behind(heavy):
    with pytest.raises(ZeroDivisionError), postponed("heavy"):
        raise ZeroDivisionError
    assert "heavy" not in sys.modules


def test_estimators_import_neither_pandas_nor_scipy_stats():
    code = """
import sys
from lineal import LinearClassifier, LinearClassifierCV, OnlineClassifier
print([name for name in ("pandas", "scipy.stats", "sklearn.metrics", "sklearn.model_selection") if name in sys.modules])
from sklearn.base import BaseEstimator
import scipy.stats
assert issubclass(LinearClassifier, BaseEstimator) and scipy.stats.norm.cdf(0.0) == 0.5
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
