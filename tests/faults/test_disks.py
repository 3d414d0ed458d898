"""Disks that are full or read-only, and files that may not grow: one line, the old file whole, nothing left behind."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
import sys

import pytest
from child_processes import before_step, in_a_fork, parts_in, problem_with
from cli_files import done, program, write_iris

import lineal
from lineal.data.binary.layout import write_layout
from lineal.errors import LinealError
from lineal.system.files import whole_file

resource = pytest.importorskip("resource", reason="limits of files are Unix's")


@functools.cache
def with_mounts() -> list[str]:
    """How to start a process that may mount, in a name space of its own; a skip where that is not permitted."""
    start = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    trial = [*start, "sh", "-c", "mount -t tmpfs none /mnt"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("this system does not permit to mount a tmpfs")
    return start


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows, a model, and kernels for the commands below."""
    folder = tmp_path_factory.mktemp("disks")
    write_iris(folder / "a.csv")
    done("train", folder / "a.csv", "-m", folder / "m", "--loss", "softmax", "--quiet")
    return folder


COMMANDS = {
    "train": "train {0}/a.csv -m disk/m --loss softmax",
    "history": "train {0}/a.csv -m {1}/m --history disk/m --loss softmax",
    "plot": "train {0}/a.csv -m {1}/m --plot disk/m.png --loss softmax",
    "online": "train --online {0}/a.csv -m disk/m",
    "path": "path {0}/a.csv -m disk/m --loss softmax --n-alphas 2 --folds 2",
    "predict": "predict {0}/m {0}/a.csv -o disk/m",
    "compact": "compact {0}/m -o disk/m",
    "columns": "compact {0}/m -o {1}/m --columns disk/m",
    "convert": "convert {0}/a.csv disk/m.arrow",
}
FEW = ("train", "convert", "predict")

MOUNT = """
mount -t tmpfs -o size=16k none disk || exit 99
echo precious | tee disk/m disk/m.arrow > disk/m.png
"""
MAKE = {
    "full": "cat /dev/zero > disk/filling 2> /dev/null",
    "read-only": "touch disk/filling; mount -o remount,ro disk || exit 99",
}
RUN = """
"$@"; code=$?
ls -A disk; cat disk/m disk/m.arrow disk/m.png; exit $code
"""
AFTER = ["filling", "m", "m.arrow", "m.png", "precious", "precious", "precious"]


@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_disks(files, tmp_path, tally, factor, kind):
    count, start = tally("full and read-only disks"), with_mounts()
    (tmp_path / "disk").mkdir()
    temporary = {**os.environ, "TMPDIR": str(tmp_path)}
    for name in COMMANDS if factor > 1 else FEW:
        line = [*program(), *COMMANDS[name].format(files, tmp_path).split()]
        script = f"{MOUNT}\n{MAKE[kind]}\n{RUN}"
        result = subprocess.run(
            [*start, "sh", "-c", script, "sh", *line], cwd=tmp_path, capture_output=True, text=True, timeout=240,
            env=temporary,
        )  # fmt: skip
        problem = problem_with(result.returncode, result.stderr, (2,))
        reason = "no space left on device" if kind == "full" else "read-only"
        if problem is None and reason not in result.stderr.lower():
            problem = f"does not say why: {result.stderr}"
        if problem is None and [line for line in result.stdout.split("\n") if line][-7:] != AFTER:
            problem = f"left on the disk: {result.stdout}"
        if problem is None and "saved to" in result.stderr:
            where = result.stderr.split("saved to ")[1].split(" instead")[0]
            problem = None if lineal.load(where).n_features > 0 else "saved elsewhere, but not whole"
        count.attempt(f"{kind}, {name}", problem)


def limited(bytes_: int, work):
    def run():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
        work()

    return run


@pytest.fixture
def writers(files, tmp_path):
    """Ways to write a file, by its name."""
    model, data = lineal.load(files / "m"), lineal.read(files / "a.csv")

    def text():
        with whole_file(tmp_path / "text") as file:
            for _ in range(50):
                file.write(b"x" * 100)

    return {
        "m": lambda: model.save(tmp_path / "m"),
        "d.arrow": lambda: write_layout(data, tmp_path / "d.arrow"),
        "text": text,
    }


def told(write, reason):
    """The same; exit code 7 where it fails with one of our errors, for that reason."""

    def run():
        try:
            write()
        except LinealError as error:
            os._exit(7 if reason in str(error) else 8)

    return run


def test_files_that_may_not_grow(writers, tmp_path, tally, factor):
    """Writing fails after any number of bytes."""
    count = tally("writes that fail")
    for name, write in writers.items():
        write()
        size = os.path.getsize(tmp_path / name)
        for step in range(4 * factor):
            (tmp_path / name).write_bytes(b"precious")
            code = in_a_fork(limited(step * size // (4 * factor), told(write, "File too large")))
            kept = (tmp_path / name).read_bytes() == b"precious"
            fine = code == 7 and kept and not parts_in(tmp_path)
            count.attempt(f"{name}, {step}", None if fine else f"exit {code}, kept: {kept}, {parts_in(tmp_path)}")


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.EROFS, errno.EMFILE])
def test_any_step_of_writing_may_fail(writers, tmp_path, tally, number):
    """The old file is kept and the error says why, or the new file is whole."""
    count = tally("writes that fail")

    def fail():
        raise OSError(number, os.strerror(number))

    for name, write in writers.items():
        write()
        size, failures = os.path.getsize(tmp_path / name), 0
        for step in range(1, 12):  # the last ones come after the work is done
            (tmp_path / name).write_bytes(b"precious")
            steps = ("open", "mkdir", "dup", "fsync", "chmod", "replace")
            code = in_a_fork(before_step(step, fail, told(write, os.strerror(number)), steps))
            found, parts = (tmp_path / name).read_bytes(), parts_in(tmp_path)
            fine = (code == 7 and found == b"precious" and not parts) or (code == 0 and len(found) == size)
            write()  # removes the folder that could not be opened for its removal
            fine = fine and not parts_in(tmp_path)
            count.attempt(f"{name}, {step}", None if fine else f"exit {code}, {found[:20]!r}, {parts}")
            failures += code == 7
        assert code == 0
        assert failures >= 4


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_a_read_only_model_is_refused_before_the_training(files, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (tmp_path / "m").write_text("precious")
    (tmp_path / "m").chmod(0o444)
    result = subprocess.run(
        [*program(), "train", str(files / "a.csv"), "-m", str(tmp_path / "m")], capture_output=True, text=True
    )
    assert (result.returncode, (tmp_path / "m").read_text()) == (2, "precious")
    assert "read-only" in result.stderr
