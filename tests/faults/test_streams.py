"""Standard streams that are closed, full or broken, for every command."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest
from child_processes import problem_with
from cli_files import done, program, write_iris

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirections")

#: What the shell makes of the streams, and the exit codes that are right then, for commands that write results.
REDIRECTIONS = {
    ">&-": (2,),
    "<&-": (0,),
    "2>&-": (0,),
    ">&- 2>&- <&-": (2,),
    ">/dev/full": (2,),
    "2>/dev/full": (0,),
    "| true": (141, 0),  # the reader may be gone before the first line, or after the last
    "</dev/null 0>&-": (0,),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    write_iris(folder / "a.csv")
    done("train", folder / "a.csv", "-m", folder / "m", "--loss", "softmax", "--quiet")
    return folder


COMMANDS = {
    "train": "train a.csv -m {} --loss softmax",
    "online": "train --online a.csv -m {}",
    "path": "path a.csv -m {} --loss softmax --n-alphas 2 --folds 2",
    "predict": "predict m a.csv",
    "evaluate": "evaluate m a.csv",
    "inspect": "inspect m",
    "compact": "compact m -o {}",
    "convert": "convert a.csv {}.arrow",
    "demo": "demo --json",
    "help": "train --help",
    "version": "--version",
    "nothing": "",
}

#: For `make test-all`: where nothing is compiled yet, it takes minutes.
SLOW = {"warmup": "warmup"}


def run(command, redirection, folder):
    line = f'set -o pipefail; "$@" {redirection}'
    start = ["bash", "-c", line, "bash", *program(), *command.split()]
    return subprocess.run(
        start, cwd=folder, capture_output=True, text=True, timeout=3600 if command in SLOW.values() else 240
    )


def test_streams_of_every_command(files, tmp_path, tally, factor):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    count = tally("closed and full streams")
    before = (files / "a.csv").read_bytes()
    commands = COMMANDS if factor == 1 else COMMANDS | SLOW
    pairs = list(itertools.product(commands, REDIRECTIONS))
    if factor == 1:  # every command once, every redirection once
        pairs = list(zip(commands, itertools.cycle(REDIRECTIONS)))
    for number, (name, redirection) in enumerate(pairs):
        result = run(commands[name].format(tmp_path / str(number)), redirection, files)
        problem = problem_with(result.returncode, result.stderr, REDIRECTIONS[redirection])
        if problem is None and result.returncode == 2 and "2>" not in redirection:
            problem = None if "standard output: " in result.stderr else f"does not say why: {result.stderr!r}"
        if problem is None and (files / "a.csv").read_bytes() != before:
            problem = "changed its input"
        count.attempt(f"{name} {redirection}", problem)


@pytest.mark.parametrize(
    ("redirection", "expected"),
    [("<&-", "standard input: it is closed"), ("0>/dev/null", "<stdin>: Bad file descriptor")],
)
def test_standard_input_that_cannot_be_read(files, tally, redirection, expected):
    result = run("evaluate m - --format csv", redirection, files)
    problem = problem_with(result.returncode, result.stderr, (2,))
    tally("closed and full streams").attempt(
        redirection, problem or (None if expected in result.stderr else result.stderr)
    )


def test_python_m_lineal_is_the_same(files):
    result = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", sys.executable, "-m", "lineal", "inspect", "m"],
        cwd=files, stderr=subprocess.PIPE, text=True, timeout=240,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (2, "lineal: error: standard output: it is closed\n")
