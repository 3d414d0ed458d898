"""The kernel cache: a second process compiles nothing, an edited source compiles anew, plain Python works as well."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FIT = """
import numpy as np, lineal, sys
from lineal.core import jit, kernel_files
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 5)); y = rng.integers(0, 3, 40)
from scipy import sparse
for kind in (np.ascontiguousarray, np.asfortranarray, sparse.csr_array, sparse.csc_array)[: int(sys.argv[1])]:
    for loss in sys.argv[2].split(","):
        for dtype in (np.float64, np.float32)[: int(sys.argv[3])]:
            lineal.LinearClassifier(loss=loss, max_iter=3, tol=1e9).fit(kind(X.astype(dtype)), y)
print("compiled", len(jit.compiled), "in", kernel_files.cache_folder())
"""


def run(code: str, *arguments: str, package: Path = ROOT, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, cwd=package, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(output: str) -> int:
    return int(output.split("compiled ")[1].split()[0])


def test_a_second_process_compiles_nothing(tmp_path):
    arguments = ("2", "squared_hinge", "1")
    first = run(FIT, *arguments, LINEAL_CACHE_DIR=str(tmp_path))
    second = run(FIT, *arguments, LINEAL_CACHE_DIR=str(tmp_path))
    assert compiled(first) > 3
    assert compiled(second) == 0


@pytest.mark.slow
def test_a_second_process_compiles_nothing_for_any_public_combination(tmp_path):
    arguments = ("4", "squared_hinge,softmax,logistic,squared,multiclass_squared_hinge,label_ranking", "2")
    run(FIT, *arguments, LINEAL_CACHE_DIR=str(tmp_path))
    assert compiled(run(FIT, *arguments, LINEAL_CACHE_DIR=str(tmp_path))) == 0


USE_A_LOSS = """
import numpy as np
from lineal import losses
from lineal.core import jit
from lineal.problem.row_sums import _values
from lineal.problem.targets import OneLabel
loss, targets = losses.get("hinge"), OneLabel(np.zeros(1, np.int32))
print("value", _values(loss, targets, np.ones(1), np.zeros((1, 1)), 0, 1, np.zeros((3, 1))))
print("compiled", len(jit.compiled))
"""


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of lineal that may be edited."""
    shutil.copytree(ROOT / "lineal", tmp_path / "copy" / "lineal", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "copy"


def edit(package: Path, file: str, old: str, new: str) -> None:
    source = package / "lineal" / file
    content = source.read_text()
    assert old in content
    source.write_text(content.replace(old, new))


def comment(package: Path, file: str) -> None:
    with open(package / "lineal" / file, "a") as source:
        source.write("# an edit\n")


def test_an_edit_invalidates_the_kernels_that_depend_on_it_only(tmp_path, package):
    environment = {"LINEAL_CACHE_DIR": str(tmp_path / "cache")}
    assert "value 1.0" in run(USE_A_LOSS, package=package, **environment)
    assert compiled(run(USE_A_LOSS, package=package, **environment)) == 0
    for file in ("cli/train.py", "solvers/lbfgs/lbfgs.py", "losses/logistic.py", "online/one_column.py"):
        comment(package, file)
    assert compiled(run(USE_A_LOSS, package=package, **environment)) == 0
    edit(package, "losses/hinge.py", "return max(1.0 - t * z, 0.0)", "return max(5.0 - t * z, 0.0)")  # an argument
    edited = run(USE_A_LOSS, package=package, **environment)
    assert "value 5.0" in edited
    assert compiled(edited) > 0
    assert compiled(run(USE_A_LOSS, package=package, **environment)) == 0
    comment(package, "losses/margin.py")  # has a base class of the argument
    assert compiled(run(USE_A_LOSS, package=package, **environment)) > 0
    comment(package, "core/maths.py")  # imported by an import
    assert compiled(run(USE_A_LOSS, package=package, **environment)) > 0


def test_two_versions_share_a_cache(tmp_path, package):
    environment = {"LINEAL_CACHE_DIR": str(tmp_path / "cache")}
    for value in ("1.0", "7.0", "1.0", "7.0"):
        edit(package, "losses/hinge.py", "return max(", f"return max({value} - 1.0 + ")
        assert f"value {value}" in (output := run(USE_A_LOSS, package=package, **environment))
        edit(package, "losses/hinge.py", f"return max({value} - 1.0 + ", "return max(")
    assert compiled(output) == 0


def test_versions_that_are_not_used_any_more_are_removed(tmp_path):
    from lineal.core.kernel_files import KEPT_VERSIONS, KernelFiles, Key

    files = KernelFiles("base", [tmp_path], tmp_path)
    for version in range(KEPT_VERSIONS + 3):
        files.save(Key("signature", "target", "code", str(version)), version)
        files.save(Key("signature", "target 2", "code", "1"), "another")
    assert files.load(Key("signature", "target", "code", str(KEPT_VERSIONS + 2))) == KEPT_VERSIONS + 2
    assert files.load(Key("signature", "target", "code", "0")) is None
    assert files.load(Key("signature", "target 2", "code", "1")) == "another"
    assert len(list(tmp_path.iterdir())) == KEPT_VERSIONS + 1


def test_sources_that_change_while_a_process_runs_are_not_cached(tmp_path, package):
    """The process may have imported what was there before the edit."""
    environment = {"LINEAL_CACHE_DIR": str(tmp_path / "cache")}
    change = f"from pathlib import Path; Path({str(package / 'lineal/losses/hinge.py')!r}).touch()"
    first = USE_A_LOSS.replace('print("value"', f'{change}\nprint("value"')
    before = compiled(run(first, package=package, **environment))
    assert compiled(run(first, package=package, **environment)) > 0
    assert compiled(run(USE_A_LOSS, package=package, **environment)) > 0
    assert compiled(run(USE_A_LOSS, package=package, **environment)) == 0
    assert before > 0


def test_a_closure_has_what_kernels_can_see():
    from lineal import losses
    from lineal.core import sources
    from lineal.problem import row_sums

    found = sources.closure([row_sums.__name__, type(losses.get("softmax")).__module__])
    assert {"lineal.core.maths", "lineal.losses.base", "lineal.core.protocol", "lineal.problem.row_sums"} <= found
    assert not {"lineal.losses.hinge", "lineal.linear.fit", "lineal.core.kernel_files"} & found
    assert all(name.startswith("lineal.") for name in found)


def test_an_unwritable_cache_only_costs_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    code = "from lineal.core import kernel_files, maths; print(maths.sigmoid(0.0), kernel_files.cache_folder())"
    assert run(code, LINEAL_CACHE_DIR=str(blocked)).split() == ["0.5", "None"]


def test_a_damaged_cache_entry_is_compiled_again(tmp_path):
    code = "from lineal.core import jit, maths; print(maths.sigmoid(0.0)); print('compiled', len(jit.compiled))"
    assert compiled(run(code, LINEAL_CACHE_DIR=str(tmp_path))) > 0
    for entry in tmp_path.rglob("*sigmoid*.kernel"):
        entry.write_bytes(b"damaged")
    damaged = run(code, LINEAL_CACHE_DIR=str(tmp_path))
    assert damaged.startswith("0.5")
    assert compiled(damaged) > 0
    run(code, LINEAL_CACHE_DIR=str(tmp_path))
    assert compiled(run(code, LINEAL_CACHE_DIR=str(tmp_path))) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a Unix thing")
def test_the_first_compilation_is_announced_on_a_terminal_only(tmp_path):
    import pty

    code = "from lineal.core import maths; maths.sigmoid(0.0)"
    env = {**os.environ, "LINEAL_CACHE_DIR": str(tmp_path)}

    def on_a_terminal() -> str:
        reader, writer = pty.openpty()
        subprocess.run([sys.executable, "-c", code], stderr=writer, env=env, cwd=ROOT, check=True)
        os.write(writer, b"end")
        os.close(writer)
        shown = os.read(reader, 65536).decode()
        os.close(reader)
        return shown

    assert re.search(r"compiling kernel \d+, sigmoid …, once", on_a_terminal())
    assert on_a_terminal() == "end"  # compiled already
    shutil.rmtree(tmp_path)
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, cwd=ROOT, check=True)
    assert quiet.stderr == b""


def test_kernels_go_to_one_folder_wherever_the_process_goes(tmp_path):
    code = f"""
import os, pathlib
(first := pathlib.Path({str(tmp_path)!r}, "first")).mkdir()
(second := pathlib.Path({str(tmp_path)!r}, "second")).mkdir()
os.chdir(first)
from lineal.core import kernel_files, maths
kernel_files.cache_folder()
os.chdir(second)
maths.sigmoid(0.0)
"""
    run(code, LINEAL_CACHE_DIR="kernels")
    assert list(tmp_path.glob("first/kernels/*/*sigmoid*"))
    assert not list(tmp_path.glob("second/*"))


def test_bounds_checked_kernels_have_a_cache_of_their_own():
    code = "from lineal.core import kernel_files; print(kernel_files.compiler_hash())"
    assert run(code) != run(code, NUMBA_BOUNDSCHECK="1")


@pytest.mark.parametrize("module", ["numba", "llvmlite"])
def test_another_version_of_the_compiler_starts_another_cache(module, monkeypatch):
    from lineal.core import kernel_files

    before = kernel_files.compiler_hash()
    monkeypatch.setattr(getattr(kernel_files, module), "__version__", "0.0.1")
    assert kernel_files.compiler_hash() != before


@pytest.mark.parametrize("version", ["0.69.0", "0.69.0rc1", "1.0.2"])
def test_a_numba_that_was_not_tested_is_refused_with_advice(version):
    from lineal.core.numba_internals import check_version
    from lineal.errors import LinealError

    with pytest.raises(ImportError, match="is installed, which was not tested") as caught:
        check_version(version)
    assert isinstance(caught.value, LinealError)  # which the command line prints on one line
    for part in ("Numba", version, "0.68", "pip install 'numba<0.69'"):
        assert part in str(caught.value)


@pytest.mark.parametrize("version", ["0.63.0", "0.68.1", "0.68.0dev0+3.g1"])
def test_a_numba_that_was_tested_is_taken(version):
    from lineal.core.numba_internals import check_version

    check_version(version)


def test_a_newer_numba_is_refused_before_its_private_names_are_used():
    """With the private names gone, as they may be in a newer version, the error is still the one with the advice."""
    code = """
import sys, lineal, numba
numba.__version__ = "0.69.0"
sys.modules["numba.core.caching"] = None  # importing it fails
lineal.LinearClassifier().fit([[0], [1]], [0, 1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 1
    assert "lineal.errors.DependencyError: lineal.core needs Numba up to version 0.68" in done.stderr.splitlines()[-1]


def test_the_bound_of_the_package_is_that_of_the_check():
    import tomllib

    from lineal.core.numba_internals import NEWEST

    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (numba,) = [need for need in needs if need.startswith("numba")]
    assert numba.endswith(f"<{NEWEST[0]}.{NEWEST[1] + 1}")


def test_importing_lineal_imports_neither_numba_nor_scikit_learn():
    code = "import sys, lineal; print([m for m in ('numba', 'sklearn', 'pyarrow', 'scipy') if m in sys.modules])"
    assert run(code).strip() == "[]"


@pytest.mark.slow
def test_the_core_suite_passes_in_plain_python():
    """The `core` tests of this suite once more with NUMBA_DISABLE_JIT=1."""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "core and not slow", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_two_processes_that_compile_at_once_never_share_a_file(tmp_path):
    from lineal.core.kernel_files import KernelFiles

    first, second = KernelFiles("base", [tmp_path], tmp_path), KernelFiles("base", [tmp_path], tmp_path)
    first.save("one", "code of one")
    second.save("two", "code of two")
    assert first.load("two") == "code of two"
    assert second.load("one") == "code of one"


def test_code_under_a_wrong_signature_is_compiled_again():
    from numba.core import types

    from lineal.core import jit, maths

    maths.sigmoid(0.0)
    cache = maths.sigmoid._cache
    context = maths.sigmoid.targetctx
    assert cache.load_overload((types.float64,), context) is not None
    key = cache.key((types.float64,), context.codegen())
    data = cache.files.load(key)
    cache.files.load = lambda other: data
    try:
        assert cache.load_overload((types.float32,), context) is None
    finally:
        del cache.files.load
        jit.compiled.pop()


COUNT_COMPILATIONS = """
import sys
import numpy as np
from numba.core import event
names = []
class Listener(event.Listener):
    def on_start(self, event): names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
"""


def test_methods_that_are_inlined_are_not_compiled_on_their_own(tmp_path):
    code = f"""{COUNT_COMPILATIONS}
from lineal import losses
from lineal.problem.row_sums import _gradients
from lineal.problem.targets import OneLabel
Z, R = np.zeros((1, 1)), np.empty((1, 1))
_gradients(losses.get("squared_hinge"), OneLabel(np.zeros(1, np.int32)), np.ones(1), Z, R, 0, 1, np.zeros((3, 1)))
print(R[0, 0], *names)
"""
    value, *names = run(code, LINEAL_CACHE_DIR=str(tmp_path)).split()
    assert float(value) == -2.0
    assert "_gradients" in names
    assert not {"row_gradient", "signs", "value_and_derivative", "labels"} & set(names)


def test_kernels_are_compiled_once_for_all_constants_and_again_for_calls_from_python(tmp_path):
    package = tmp_path / "package.py"
    package.write_text(
        "from lineal.core.jit import kernel\n"
        "@kernel\ndef power(x, n):\n    total = 1.0\n    for _ in range(n):\n        total *= x\n    return total\n"
        "@kernel\ndef sum_of_powers(x):\n    return power(x, 2) + power(x, 3) + power(x, n=4)\n"
    )
    code = f"""{COUNT_COMPILATIONS}
sys.path.insert(0, {str(tmp_path)!r})
from package import power, sum_of_powers
print(sum_of_powers(2.0), power(3.0, 2), *names)
"""
    environment = {"LINEAL_CACHE_DIR": str(tmp_path / "cache")}
    assert run(code, **environment).split() == ["28.0", "9.0", "sum_of_powers", "power", "power"]
    assert run(code, **environment).split() == ["28.0", "9.0"]
