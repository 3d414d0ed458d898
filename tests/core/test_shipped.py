"""Kernels of the wheel: the right level is chosen, they are loaded and not compiled, and damage only costs time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from numba import types

from lineal.core import jit, levels, shipped
from lineal.core.kernel_files import name_of, packed

ROOT = Path(__file__).resolve().parents[2]

V2 = dict.fromkeys(("cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"), True)
V3 = V2 | dict.fromkeys(("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"), True)
V4 = V3 | dict.fromkeys(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), True)
ALL = ["x86-64-v4", "x86-64-v3", "x86-64-v2"]


@pytest.mark.parametrize(
    ("machine", "features", "expected"),
    [
        ("x86_64", V4 | {"amx-tile": True}, ALL),
        ("AMD64", V4, ALL),
        ("x86_64", V4 | {"avx512vl": False}, ALL[1:]),
        ("x86_64", V3, ALL[1:]),
        ("x86_64", V3 | {"fma": False}, ALL[2:]),
        ("x86_64", V3 | {"avx": False, "avx2": False, "xsave": False}, ALL[2:]),
        ("x86_64", V2, ALL[2:]),
        ("x86_64", V2 | {"sse4.2": False}, []),
        ("x86_64", {}, []),
        ("aarch64", {"neon": True}, ["generic"]),
        ("arm64", {}, ["generic"]),
        ("riscv64", {"v": True}, []),
    ],
)
def test_a_level_is_chosen_only_if_the_processor_has_all_of_it(machine, features, expected):
    assert levels.supported(machine, features) == expected


def test_what_llvm_says_about_this_machine_counts(monkeypatch):
    def chosen(features, machine="x86_64"):
        monkeypatch.setattr(levels.llvmlite.binding, "get_host_cpu_features", lambda: dict(features))
        monkeypatch.setattr(levels.platform, "machine", lambda: machine)
        levels.of_this_machine.cache_clear()
        return list(levels.of_this_machine())

    def unknown():
        raise RuntimeError("no such processor")

    try:
        assert chosen(V4) == ALL
        monkeypatch.setattr(levels.settings, "ENABLE_AVX", 0)
        assert chosen(V4) == ALL[2:]
        monkeypatch.setattr(levels.settings, "ENABLE_AVX", 1)
        assert chosen(V4, "riscv64") == []
        monkeypatch.setattr(levels.llvmlite.binding, "get_host_cpu_features", unknown)
        levels.of_this_machine.cache_clear()
        monkeypatch.setattr(levels.platform, "machine", lambda: "x86_64")
        assert levels.of_this_machine() == ()
    finally:
        levels.of_this_machine.cache_clear()


def archive(folder: Path, level: str, **kernels: str) -> Path:
    path = shipped.path_of(level, folder)
    shipped.write(path, {name: packed(name, data) for name, data in kernels.items()})
    return path


def test_the_best_level_that_is_there_is_opened(tmp_path):
    archive(tmp_path, "x86-64-v2", one="code 2")
    archive(tmp_path, "x86-64-v3", one="code 3", two="more")
    kernels, why_not = shipped.find_in(tmp_path, ("x86-64-v4", "x86-64-v3", "x86-64-v2"))
    assert why_not is None
    assert (kernels.level, kernels.load("one"), kernels.load("two")) == ("x86-64-v3", "code 3", "more")
    assert kernels.load("three") is None
    assert shipped.find_in(tmp_path, ("x86-64-v2",)).archive.load("one") == "code 2"


def test_without_archives_there_is_nothing_to_say(tmp_path):
    assert shipped.find_in(tmp_path, ("x86-64-v3",)) == (None, "")


def test_a_processor_below_all_levels_is_told_so(tmp_path):
    archive(tmp_path, "x86-64-v2", one="code")
    found = shipped.find_in(tmp_path, ())
    assert found == (None, "this processor has none of the instruction sets x86-64-v2")


def test_damage_is_found(tmp_path):
    path = archive(tmp_path, "x86-64-v3", one="code", two="more")
    intact = path.read_bytes()
    for place in (0, len(shipped.MAGIC), len(shipped.MAGIC) + shipped.LENGTH_BYTES, 80):
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 255]) + intact[place + 1 :])
        found = shipped.find_in(tmp_path, ("x86-64-v3",))
        assert found.archive is None, place
        assert "x86-64-v3.kernels is damaged; installing lineal again mends it" in found.why_not
    for length in (0, 5, len(intact) // 2):
        path.write_bytes(intact[:length])
        found = shipped.find_in(tmp_path, ("x86-64-v3",))
        assert found.archive is None or found.archive.load("two") is None
    path.write_bytes(intact[:-3] + bytes([intact[-3] ^ 255]) + intact[-2:])  # in the last kernel
    found = shipped.find_in(tmp_path, ("x86-64-v3",)).archive
    assert (found.load("one"), found.load("two")) == ("code", None)


@pytest.mark.parametrize(("package", "advice"), [("numba", "pip install numba==0.1"), ("llvmlite", ""), ("python", "")])
def test_other_versions_are_named(tmp_path, monkeypatch, package, advice):
    here = shipped.versions()
    with monkeypatch.context() as patch:
        patch.setattr(shipped, "versions", lambda: here | {package: "0.1"})
        archive(tmp_path, "x86-64-v3", one="code")
    found = shipped.find_in(tmp_path, ("x86-64-v3",))
    assert found.archive is None
    assert f"they were made for {package} 0.1, and {here[package]} is installed" in found.why_not
    assert advice in found.why_not


def test_look_up_order(monkeypatch):
    """The archive first, then the files of this machine, then the compiler; what cannot be used is passed over."""
    asked = []

    class Files:
        base, destination = "module.f", None

        def __init__(self, data):
            self.data = data

        def load(self, key):
            asked.append("cache")
            return self.data

    class Codegen:
        def magic_tuple(self):
            return ("triple", "this processor", "+its,-features")

    class Context:
        def codegen(self):
            return Codegen()

    def add_one(x):
        return x + 1

    def look_up(shipped_data, cached_data):
        asked.clear()

        def load(name):
            asked.append("archive")
            return shipped_data if name == expected else None

        archive = shipped.Archive("x86-64-v3", {}, None)
        monkeypatch.setattr(shipped.Archive, "load", lambda self, name: load(name))
        monkeypatch.setattr(shipped, "find", lambda: shipped.Found(archive))
        cache.files = Files(cached_data)
        before = len(jit.compiled)
        found = cache.load_overload(signature, Context())
        return found, list(asked), len(jit.compiled) - before

    class Rebuilt:
        def __init__(self, name, arguments):
            self.name, self.signature = name, types.void(*arguments)

    def rebuild(context, name, *arguments):
        if name == "unusable":
            raise ValueError(name)
        return Rebuilt(name, arguments)

    monkeypatch.setattr(jit, "rebuild_result", rebuild)
    cache, signature = jit._KernelCache(add_one), types.float64(types.float64)
    key = cache.key(signature, Codegen())
    assert key.target == ("triple", "this processor", "+its,-features")
    expected = name_of("module.f", key._replace(target=("triple", "x86-64-v3", "")))
    good, other = ("good", types.float64), ("other signature", types.int64)
    found, order, compiled = look_up(good, ("cached", types.float64))
    assert (found.name, order, compiled) == ("good", ["archive"], 0)
    for unusable in (None, ("unusable",), other):
        found, order, compiled = look_up(unusable, ("cached", types.float64))
        assert (found.name, order, compiled) == ("cached", ["archive", "cache"], 0), unusable
        assert look_up(unusable, unusable) == (None, ["archive", "cache"], 1)


# --- whole processes

#: Uses one kernel, with the archives of a folder.
USE = """
import sys
from pathlib import Path
from lineal.core import shipped
shipped.FOLDER = Path(sys.argv[1])
from lineal.core import jit, maths
archive = shipped.find().archive
print(maths.sigmoid(0.0), "compiled", len(jit.compiled), "from", archive and archive.level)
"""

#: Compiles that kernel for one level, as a build of the wheel does, and writes the archive.
BUILD = """
import sys
from pathlib import Path
from lineal.core import kernel_files, maths, shipped
maths.sigmoid(0.0)
files = {path.name: path.read_bytes() for path in kernel_files.cache_folder().iterdir()}
shipped.write(shipped.path_of(sys.argv[2], Path(sys.argv[1])), files)
"""


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT, check=False,
        env={**env, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with an archive of one kernel for the lowest level of this machine."""
    if not levels.of_this_machine():
        pytest.skip(f"no kernels are shipped for {platform.machine()}")
    folder, level = tmp_path_factory.mktemp("kernels"), levels.of_this_machine()[-1]
    cache = str(tmp_path_factory.mktemp("cache"))
    python(BUILD, str(folder), level, NUMBA_CPU_NAME=level, NUMBA_CPU_FEATURES="", LINEAL_CACHE_DIR=cache)
    return folder


def test_shipped_kernels_are_loaded_and_nothing_is_compiled(built, tmp_path):
    done = python(USE, str(built), LINEAL_CACHE_DIR=str(tmp_path))
    assert done.stdout == f"0.5 compiled 0 from {levels.of_this_machine()[-1]}\n"
    assert done.stderr == ""
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    assert "compiled 0" in python(USE, str(built), LINEAL_CACHE_DIR=str(blocked)).stdout


def test_the_switch_and_settings_of_numba_turn_shipped_kernels_off(built, tmp_path):
    for environment in (
        {"LINEAL_SHIPPED_KERNELS": "0"}, {"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_FEATURES": ""},
        {"NUMBA_BOUNDSCHECK": "1"},
    ):  # fmt: skip
        done = python(USE, str(built), LINEAL_CACHE_DIR=str(tmp_path), **environment)
        assert "from None" in done.stdout
        assert "compiled 0" not in done.stdout
        assert done.stderr == ""


def test_a_damaged_kernel_is_compiled_and_a_damaged_archive_is_said_once(built, tmp_path):
    (intact,) = built.iterdir()
    folder = tmp_path / "damaged"
    folder.mkdir()
    path = folder / intact.name
    content = intact.read_bytes()
    first = min(start for start, _ in shipped.find_in(built, levels.of_this_machine()).archive.places.values())
    path.write_bytes(content[:first] + bytes(len(content) - first))
    done = python(USE, str(folder), LINEAL_CACHE_DIR=str(tmp_path / "one"))
    assert (done.stdout[:3], done.stderr) == ("0.5", "")
    assert "compiled 0" not in done.stdout
    path.write_bytes(bytes(100))
    done = python(USE, str(folder), LINEAL_CACHE_DIR=str(tmp_path / "two"))
    assert done.stdout.startswith("0.5")
    assert done.stderr.count("\n") == 1
    assert "is damaged" in done.stderr
    assert python(USE, str(folder), LINEAL_CACHE_DIR=str(tmp_path / "two")).stderr == ""  # nothing is compiled any more
