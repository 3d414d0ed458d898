"""Commands that are killed while they train: with `--checkpoint` they continue, and the model is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from cli_files import done, program

import lineal
from lineal.problem.checkpoint import EVERY_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are Unix's")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows that take many iterations: columns of very different sizes, and labels that depend on all of them."""
    path, random = tmp_path_factory.mktemp("fits") / "rows.svm", np.random.default_rng(0)
    X = random.normal(size=(1500, 30)) * 10.0 ** random.uniform(-2, 2, 30)
    y = ((X / X.std(axis=0)) @ random.normal(size=(30, 3)) + random.normal(size=(1500, 3))).argmax(axis=1)
    lines = [f"{label} " + " ".join(f"{j + 1}:{x:.6g}" for j, x in enumerate(row)) for label, row in zip(y, X)]
    path.write_text("\n".join(lines) + "\n")
    return path


LINES = {
    "lbfgs": "--loss softmax --solver lbfgs --alpha 1e-8 --tol 1e-7",
    "fista": "--loss logistic --penalty l1 --solver fista --alpha 1e-1 --tol 1e-2",
    "dual_cd": "--loss hinge --solver dual_cd --alpha 1e-1 --tol 1e-2 --n-jobs 1",
    "admm": "--loss hinge --solver admm --alpha 1e-1 --tol 1e-3 --n-jobs 1",
    "admm files": "--loss hinge --solver admm --solver-option shards=3 --alpha 1e-1 --tol 1e-3 --memory-budget 1GB",
    "dual_cd files": "--loss hinge --solver dual_cd --alpha 1e-1 --tol 1e-2 --n-jobs 1 --memory-budget 1GB",
    "lbfgs workers": "--loss softmax --solver lbfgs --alpha 1e-8 --tol 1e-7 --workers 2",
    "admm workers": "--loss hinge --solver admm --alpha 1e-1 --tol 1e-3 --workers 2",
    "online": "--online --passes 40 --hold-out 0 --bits 12 --block-bytes 20000",
    "learners": "--online --learners 3 --passes 40 --hold-out 0 --bits 12 --block-bytes 20000",
}
#: Those that `make test` runs.
FEW = ("lbfgs", "online")


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in LINES]
)
def test_a_killed_command_continues_to_the_same_model(tmp_path, tally, rows, factor, name):
    count, path = tally("kills of fits"), tmp_path / "c"
    if "workers" in name:
        pytest.importorskip("distributed")
    data = converted(rows) if "files" in name or "workers" in name else rows
    line = ["train", str(data), *LINES[name].split(), "--quiet", "-m"]
    done(*line, tmp_path / "wanted")
    environment = {**os.environ, EVERY_VARIABLE: "0"}
    kills, is_done, written = 0, False, None
    while not is_done and kills < 3 * factor:
        process = subprocess.Popen(
            [*program(), *line, str(tmp_path / "m"), "--checkpoint", str(path)], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun = time.monotonic()
        while process.poll() is None and identity(path) in (None, written) and time.monotonic() - begun < 240:
            time.sleep(0.001)  # until this process has written a checkpoint
        process.send_signal(signal.SIGKILL)
        said = process.communicate(timeout=240)[1]
        is_done = process.returncode == 0
        assert is_done or process.returncode == -signal.SIGKILL, said
        kills += not is_done
        written = identity(path)
        count.attempt(f"{name}, kill {kills}", None if is_done or written is not None else "no checkpoint is left")
    assert kills > 0
    if not is_done:
        result = done(*line, tmp_path / "m", "--checkpoint", path)
        assert f"note: continuing from {path}" in result.stderr
    assert not path.exists()
    found, wanted = (lineal.load(tmp_path / which).to_parts()[1] for which in ("m", "wanted"))
    assert found.keys() == wanted.keys()
    for tensor in wanted:
        np.testing.assert_array_equal(found[tensor], wanted[tensor])
    assert sorted(os.listdir(tmp_path)) == ["m", "wanted"]


def identity(path):
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def converted(path):
    """The same rows in the binary layout."""
    found = path.with_suffix(".arrow")
    if not found.exists():
        lineal.convert(path, found)
    return found
