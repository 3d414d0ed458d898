"""The cache of compiled kernels: damaged, read-only, full, deleted, and shared by processes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from child_processes import parts_in

from lineal.core.kernel_files import KernelFiles, name_of

CODE = """
import sys
from lineal.core import jit, kernel_files
{before}
from lineal.core import maths
assert maths.sigmoid(0.0) == 0.5
{after}
print(len(jit.compiled))
"""


def start(cache, before="", after="", **extra):
    environment = {**os.environ, "LINEAL_CACHE_DIR": str(cache)}
    code = CODE.format(before=before, after=after)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **extra,
    )


def compiled(process):
    out, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (0, "")
    return int(out)


DAMAGE = {
    "a bit": lambda path, draw: flip(path, draw),
    "cut": lambda path, draw: path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)]),
    "empty": lambda path, draw: path.write_bytes(b""),
    "garbage": lambda path, draw: path.write_bytes(draw.randbytes(5000)),
    "folder": lambda path, draw: (path.unlink(), path.mkdir()),
    "another's": lambda path, draw: path.write_bytes(another(path, draw).read_bytes()),
    "gone": lambda path, draw: path.unlink(),
    "unreadable": lambda path, draw: path.chmod(0),
    "a link to itself": lambda path, draw: (path.unlink(), path.symlink_to(path)),
}


def another(path, draw):
    return draw.choice([one for one in sorted(path.parent.glob("*.kernel")) if one != path and one.is_file()] or [path])


def flip(path, draw):
    content = bytearray(path.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def test_damaged_files_are_missing_files(tmp_path, tally, factor):
    count, draw = tally("cached kernels"), random.Random(0)
    files = KernelFiles("base", [tmp_path], tmp_path)
    values = {f"key {i}": draw.randbytes(300) for i in range(3)}
    for attempt in range(100 * factor):
        for key, value in values.items():
            files.save(key, value)
        name = list(DAMAGE)[attempt % len(DAMAGE)]
        victim = tmp_path / name_of(files.base, "key 1")
        same = victim.read_bytes()
        DAMAGE[name](victim, draw)
        found = files.load("key 1")
        is_same = victim.is_file() and victim.read_bytes() == same  # as a copy of itself is
        right = found == values["key 1"] if is_same else found is None
        count.attempt(name, None if right else f"loaded {found!r}")
        if victim.is_dir():
            victim.rmdir()
    files.save("key 1", "new")
    assert files.load("key 1") == "new"
    assert parts_in(tmp_path) == []


def test_processes_with_damaged_kernels(tmp_path, tally, factor):
    """Every process gives the right answer, and the one after it finds the kernel mended."""
    count, draw = tally("processes with damaged kernels"), random.Random(1)
    assert compiled(start(tmp_path)) > 0
    assert compiled(start(tmp_path)) == 0
    names = draw.sample(["a bit", "cut", "garbage", "a link to itself"], 2) if factor == 1 else [*DAMAGE]
    for name in names:
        for path in tmp_path.rglob("*.kernel"):
            if path.is_file():
                DAMAGE[name](path, draw)
        out, errors = (process := start(tmp_path)).communicate(timeout=240)
        fine = process.returncode == 0 and errors == "" and (int(out) > 0 or name in ("another's", "unreadable"))
        count.attempt(name, None if fine else f"exit {process.returncode}: {out} {errors[-300:]}")
        for path in tmp_path.rglob("*.kernel"):
            if path.is_dir():
                path.rmdir()
    compiled(start(tmp_path))
    assert compiled(start(tmp_path)) == 0


def test_two_processes_on_an_empty_cache(tmp_path, tally):
    count = tally("processes on an empty cache")
    for process in [start(tmp_path), start(tmp_path)]:
        count.attempt("at once", None if compiled(process) >= 0 else "failed")
    assert compiled(start(tmp_path)) == 0
    assert list(tmp_path.rglob("*.part")) == []


def test_a_warm_cache_in_a_read_only_place(tmp_path):
    warm, own = tmp_path / "warm", tmp_path / "own"
    assert compiled(start(warm)) > 0
    before = sorted(warm.rglob("*"))
    # Root may write everywhere, so that permissions would not do.
    read_only = (
        "can = kernel_files._is_writable; "
        f"kernel_files._is_writable = lambda one: {str(warm)!r} not in str(one) and can(one)"
    )
    assert compiled(start(warm, read_only)) == 0
    new = "maths.log1p_exp(0.0)"
    assert compiled(start(f"{warm}{os.pathsep}{own}", read_only, new)) > 0
    assert sorted(warm.rglob("*")) == before
    assert list(own.rglob("*.kernel")) != []
    assert compiled(start(f"{warm}{os.pathsep}{own}", read_only, new)) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are Unix's")
def test_caches_that_cannot_be_written(tmp_path, tally):
    import resource

    count = tally("caches that cannot be written")
    process = start(tmp_path / "full", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    count.attempt("a full disk", None if compiled(process) > 0 and not parts(tmp_path) else "left something")
    gone = f"import shutil; shutil.rmtree({str(tmp_path / 'gone')!r})"
    process = start(tmp_path / "gone", after=gone + "; maths.log1p_exp(0.0)")
    count.attempt("a cache that is deleted", None if compiled(process) > 0 else "nothing compiled")


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix == ".part"]
