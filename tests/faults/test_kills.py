"""Processes that are killed while they write: the old file survives or the new one is whole, and parts are removed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from child_processes import before_step, die, in_a_fork, parts_in, problem_with
from cli_files import done

import lineal
from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.system.files import scratch_folder, whole_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks are Unix's")


def a_model(seed):
    rng = np.random.default_rng(seed)
    return lineal.LinearClassifier(max_iter=3, tol=10.0).fit(rng.normal(size=(30, 4)), rng.integers(0, 2, 30)).model_


def a_layout(seed):
    return Dataset(np.random.default_rng(seed).normal(size=(20, 3)), np.arange(20) % 2)


def write_text(text, path):
    with whole_file(path) as file:
        file.write(text)


#: How a file is written, and how its contents are told from others'.
WRITERS = {
    "model.lineal": (a_model, lambda model, path: model.save(path), lambda path: lineal.load(path).weights.tolist()),
    "rows.arrow": (a_layout, write_layout, Path.read_bytes),
    "text": (lambda seed: b"text %d" % seed, write_text, Path.read_bytes),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_before_any_step_of_writing(tmp_path, tally, name):
    make, write, read = WRITERS[name]
    old, new = make(0), make(1)
    count, path = tally("kills while writing"), tmp_path / name
    whole = []
    for content in (new, old):
        write(content, path)
        whole.append(read(path))
    for step in range(1, 100):
        write(old, path)
        code = in_a_fork(before_step(step, die, lambda: write(new, path)))
        is_whole = read(path) in whole
        os.link(path, tmp_path / "kept")  # the next writer must not touch what is there but for the parts
        write(old, path)
        os.unlink(tmp_path / "kept")
        parts = parts_in(tmp_path)
        what = f"{name}, step {step}, exit {code}"
        count.attempt(what, None if is_whole and not parts else f"whole: {is_whole}, left: {parts}")
        if code == 0:
            break
    assert step > 4
    assert code == 0


def test_parts_of_those_who_still_write_are_left_alone(tmp_path):
    path = tmp_path / "text"
    with whole_file(path) as file:
        file.write(b"slow")
        (part,) = parts_in(tmp_path)
        write_text(b"quick", path)
        assert parts_in(tmp_path) == [part]
        assert in_a_fork(lambda: write_text(b"from another process", path)) == 0
        assert parts_in(tmp_path) == [part]
        assert path.read_bytes() == b"from another process"
    assert path.read_bytes() == b"slow"
    assert parts_in(tmp_path) == []


def test_temporary_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def work():
        with scratch_folder() as folder:
            Path(folder, "copy").write_bytes(b"of standard input")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_fork(work) == -signal.SIGKILL
    (left,) = os.listdir(tmp_path)
    with scratch_folder() as folder:
        assert os.listdir(tmp_path) == [os.path.basename(folder)] != [left]
    assert os.listdir(tmp_path) == []


def test_many_writers_of_one_file(tmp_path, tally, factor):
    count, path = tally("writers of one file"), tmp_path / "text"
    texts = [bytes([65 + i]) * 100_000 for i in range(4)]
    write_text(texts[0], path)
    children = []
    for text in texts:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(20 * factor):
                    write_text(text, path)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    is_whole = True
    for child in children:
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            is_whole = is_whole and path.read_bytes() in texts
            if ended:
                break
        is_done = os.waitstatus_to_exitcode(status) == 0
        count.attempt("a writer", None if is_done and is_whole else f"done: {is_done}, always whole: {is_whole}")
    assert parts_in(tmp_path) == []


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Enough rows that reading, training and writing each take some time, and a model of them."""
    folder = tmp_path_factory.mktemp("kills")
    rng = np.random.default_rng(0)
    lines = [f"{i % 3} " + " ".join(f"{j + 1}:{value:.4f}" for j, value in enumerate(row)) for i, row in
             enumerate(rng.normal(size=(4000, 20)))]  # fmt: skip
    (folder / "rows.svm").write_text("\n".join(lines) + "\n")
    done("train", folder / "rows.svm", "-m", folder / "m", "--loss", "softmax", "--quiet")
    return folder / "rows.svm", folder / "m"


COMMANDS = {
    "train": lambda rows, model, out: ["train", rows, "-m", out],
    "online": lambda rows, model, out: ["train", "--online", rows, "-m", out],
    "convert": lambda rows, model, out: ["convert", rows, out],
    "predict": lambda rows, model, out: ["predict", model, rows, "-o", out, "--proba", "--block-bytes", "20000"],
}
#: Exit codes of a command that a signal has ended.
SIGNALS = {"SIGKILL": -9, "SIGTERM": 143, "SIGHUP": 143, "SIGINT": 130}


#: Starts the program, which closes the given file when its handlers of signals are set up.
TELLING = """
import os, sys
from lineal.cli import main, terminal
prepare, ready = terminal.prepare_streams, int(sys.argv.pop(1))

def tell():
    os.close(ready)
    prepare()

terminal.prepare_streams = tell
main()
"""


def begun(arguments, said):
    """The command in a process of its own that can be sent signals from now on."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", TELLING, str(writing), *arguments]
    process = subprocess.Popen(command, stdout=said, stderr=said, pass_fds=[writing])
    os.close(writing)
    os.read(reading, 1)  # ends when the other side is closed
    os.close(reading)
    return process


@pytest.mark.parametrize("name", COMMANDS)
def test_signals_at_random_moments(tmp_path, tally, factor, rows, name):
    """The program may be done before the signal."""
    count, draw = tally("signals to commands"), random.Random(name)
    data, model = rows
    out = tmp_path / "folder" / "out.arrow"
    out.parent.mkdir()
    arguments = [str(argument) for argument in COMMANDS[name](data, model, out)]
    before, content = data.read_bytes(), b"precious"
    for _ in range(2):  # the first run may have to compile kernels
        with open(os.devnull, "w") as nobody:
            process = begun(arguments, nobody)
            start = time.monotonic()
            assert process.wait(240) == 0
            length = time.monotonic() - start
    kinds = list(SIGNALS)
    for attempt in range(2 * factor):
        kind = kinds[(len(name) + attempt) % len(kinds)]
        out.write_bytes(content)
        killed = parts_in(out.parent)  # what a kill has left stays until somebody writes
        with open(tmp_path / "said", "w+") as said:
            process = begun(arguments, said)
            time.sleep(length * draw.random())
            process.send_signal(getattr(signal, kind))
            code = process.wait(240)
            said.seek(0)
            text = said.read()
        problem = problem_with(code, text, (SIGNALS[kind], 0))
        if problem is None and out.read_bytes() != content and not is_whole(out, name):
            problem = "half a file"
        if problem is None and kind != "SIGKILL" and not set(parts_in(out.parent)) <= set(killed):
            problem = f"left {parts_in(out.parent)}"
        if problem is None and data.read_bytes() != before:
            problem = "changed its input"
        count.attempt(f"{name}, {kind}", problem)
    done(*arguments)  # the next run removes what a kill has left
    assert os.listdir(out.parent) == ["out.arrow"]


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_again_and_again(tmp_path, tally, factor, rows, name):
    """Every moment of ending is interrupted as well."""
    count, draw = tally("signals to commands"), random.Random(name)
    data, model = rows
    out = tmp_path / "folder" / "out.arrow"
    out.parent.mkdir()
    arguments = [str(argument) for argument in COMMANDS[name](data, model, out)]
    for _ in range(factor):
        out.write_bytes(b"precious")
        with open(tmp_path / "said", "w+") as said:
            process = begun(arguments, said)
            time.sleep(draw.random())
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.005 * draw.random())
            said.seek(0)
            problem = problem_with(process.returncode, said.read(), (130, 0))
        if problem is None and out.read_bytes() != b"precious" and not is_whole(out, name):
            problem = "half a file"
        if problem is None and parts_in(out.parent):
            problem = f"left {parts_in(out.parent)}"
        count.attempt(f"{name}, many SIGINT", problem)


def is_whole(path, name):
    if name == "convert":
        return len(lineal.read(path)) == 4000
    if name == "predict":
        return path.read_bytes().count(b"\n") == 4001
    return lineal.load(path) is not None
