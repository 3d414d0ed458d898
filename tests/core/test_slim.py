"""Cached kernels without bitcode: loaded by later processes, and called by kernels that are compiled then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from lineal.core import jit, kernel_files
from lineal.core.slim import without_bitcode

pytestmark = pytest.mark.skipif(jit.IS_PLAIN, reason="nothing is compiled")

ROOT = Path(__file__).resolve().parents[2]

#: Kernels that call each other and make arrays, in a module that a process imports.
KERNELS = """
import numpy as np
from lineal.core.jit import kernel

@kernel
def halves(x):
    return 0.5 * x

@kernel
def summed(n):
    total, numbers = 0.0, np.arange(n)
    for number in numbers:
        total += halves(float(number))
    return total
"""
LATER = (
    KERNELS
    + """
@kernel
def twice(n):
    return 2.0 * summed(n) + halves(1.0)
"""
)


def run(folder: Path, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "LINEAL_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_loaded_kernel_runs_and_can_be_called_by_a_new_one(tmp_path, monkeypatch):
    (tmp_path / "some_kernels.py").write_text(LATER)
    show = "from lineal.core import jit; print(jit.compiled)"
    assert run(tmp_path, f"import some_kernels as s; print(s.summed(5), s.halves(3.0)); {show}").startswith("5.0 1.5\n")
    # In a new process: both are loaded from the cache first, and then a kernel that calls them is compiled.
    out = run(
        tmp_path, f"import some_kernels as s; print(s.summed(5), s.halves(3.0)); {show}; print(s.twice(5)); {show}"
    )
    first, nothing, second, then = out.splitlines()
    assert (first, nothing, second) == ("5.0 1.5", "[]", "10.5")
    assert "twice" in then
    assert run(tmp_path, f"import some_kernels as s; print(s.twice(5)); {show}") == "10.5\n[]\n"
    monkeypatch.syspath_prepend(tmp_path)  # unpacking imports the module
    for path in (tmp_path / "cache").rglob("*.kernel"):
        (_, kind, (machine_code, bitcode)), *_ = kernel_files.unpacked(path.name, path.read_bytes())
        assert kind == "object"
        bodies = [f for f in llvm.parse_bitcode(bitcode).functions if not f.is_declaration and len(str(f)) > 200]
        assert bool(bodies) == (".inner." in path.name), path.name
        assert len(machine_code) > 500


def test_loading_imports_nothing_that_only_compiling_needs(tmp_path):
    """Neither Numba's arrays nor, with them, most of its compiler; errors of its functions are raised all the same."""
    made = "\n@kernel\ndef made(n):\n    return np.zeros(n).sum() + np.ones(4).reshape((n, 3)).sum()\n"
    (tmp_path / "some_kernels.py").write_text(KERNELS + made)
    code = """
import sys
import some_kernels as s
from lineal.core import jit
try:
    s.made(-1)
except ValueError:
    print("refused")
print(s.summed(5), len(jit.compiled), [m for m in ("numba.np.arrayobj", "numba.cpython.charseq") if m in sys.modules])
"""
    assert run(tmp_path, code).startswith("refused\n5.0 ")
    assert run(tmp_path, code) == "refused\n5.0 0 []\n"


def test_names_survive():
    module = llvm.parse_assembly(
        'define double @"a\\22b\\5cc \\c3\\a4$1"(double %x) { ret double %x }\n'
        'declare double @sin(double)\n@.const.text = internal constant [2 x i8] c"a\\00"\n@env = common global ptr null'
    )
    data = ("name", "object", (b"machine code", module.as_bitcode())), "signature", "environment"
    (name, kind, (code, bitcode)), *rest = without_bitcode(data)
    assert (name, kind, code, rest) == ("name", "object", b"machine code", ["signature", "environment"])
    slim = llvm.parse_bitcode(bitcode)
    assert {f.name for f in slim.functions} == {'a"b\\c ä$1'}
    assert {v.name for v in slim.global_variables} == {".const.text", "env"}
    other = ("name", "bitcode", b"all of it"), "rest"
    assert without_bitcode(other) is other
