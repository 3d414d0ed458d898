"""Help shows what matters, all of it on demand, and promises nothing that is refused; completion knows every flag."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from cli_files import done, failed

import lineal
from lineal.cli.help import MAIN

COMMANDS = (
    "train", "path", "predict", "evaluate", "inspect", "compact", "convert", "demo", "warmup", "help", "completion"
)  # fmt: skip


def flags_in(text):
    """The flags that begin a line of a help text."""
    return {flag for line in re.findall(r"^ +(-.*?)(?:  |$)", text, re.M) for flag in re.findall(r"--[\w-]+", line)}


@pytest.mark.parametrize("command", MAIN)
def test_short_and_long_help(command):
    short, long = done(command, "--help").stdout, done(command, "--help-all").stdout
    few, all_of_them = flags_in(short), flags_in(long)
    assert few < all_of_them
    assert len(few) <= 23
    assert f"{command} --help-all" in short
    hidden = int(re.search(r"(\d+) more options", short)[1])
    assert hidden > 0
    assert "more options" not in long
    named = {"--" + name.replace("_", "-") for name in MAIN[command]}
    assert named <= few, named - few


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command):
    assert done("help", command).stdout == done(command, "--help").stdout
    assert done("help", command, "--all").stdout == done(command, "--help-all").stdout


def test_help_of_the_program():
    assert done("help").stdout == done("--help").stdout
    assert "Did you mean 'train'" in failed("help", "trian")


def test_version():
    assert done("-V").stdout == done("--version").stdout == f"lineal {lineal.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_of_no_python_values(command):
    text = done(command, "--help-all").stdout
    assert not re.search(r"\b(None|True|False|dict)\b", text), text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_flag(shell):
    script = done("completion", shell).stdout
    for command in COMMANDS:
        for flag in flags_in(done(command, "--help-all").stdout) - {"--help"}:
            spelled = f"-l {flag[2:]} " if shell == "fish" else flag
            assert any(command in line and spelled in line for line in script.splitlines()), (command, flag)


def test_completion_of_another_shell():
    assert "did you mean 'fish'" in failed("completion", "fsh")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["lineal", "pre"], ["predict"]),
        (["lineal", "help", "ev"], ["evaluate"]),
        (["lineal", "train", "x.csv", "--los"], ["--loss"]),
        (["lineal", "compact", "--ou"], ["--output"]),
        (["lineal", "train", "x"], []),  # left to the completion of files
    ],
)
def test_bash_completes(words, expected):
    script = done("completion", "bash").stdout
    listed = " ".join(f"'{word}'" for word in words)
    call = f'{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _lineal; echo "${{COMPREPLY[*]}}"'
    shown = subprocess.run(["bash", "-c", call], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.split() == expected
    assert shown.stderr == ""
