"""The program in a shell: imports, exit codes, signals, pipes, and flags that follow the options."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cli_files import done, program, shell

import lineal
from lineal.cli import orderly_end
from lineal.cli.flags import NO_FLAGS, flag_of
from lineal.data.options import ReadOptions
from lineal.linear.options import TrainOptions

COMMANDS = [
    "train",
    "predict",
    "evaluate",
    "inspect",
    "convert",
    "demo",
    "warmup",
    "path",
    "compact",
    "help",
    "completion",
]


def modules_after(code: str, *names: str) -> list[str]:
    """The modules among these that a process has imported at the end of `code`."""
    script = f"import sys\n{code}\nprint(*[name for name in {names!r} if name in sys.modules], file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stderr.split()


def call(*args: object) -> str:
    return f"from lineal.cli.app import app\napp({[str(arg) for arg in args]!r}, standalone_mode=False)"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A model of a table and the table's file."""
    folder = tmp_path_factory.mktemp("shell")
    rows, model = folder / "rows.csv", folder / "rows.model"
    rows.write_text("x,kind\n" + "0,no\n1,yes\n0.2,no\n0.8,yes\n" * 2000)
    done("train", rows, "-m", model, "--loss", "softmax", "--quiet")
    return model, rows


def test_help_imports_nothing_heavy():
    code = "import lineal\n" + "\n".join(call(*args) for args in (["--help"], *([c, "--help-all"] for c in COMMANDS)))
    assert modules_after(code, "numba", "sklearn", "numpy", "scipy", "pyarrow", "rich") == []


def test_training_and_predicting_need_no_scikit_learn(table, tmp_path):
    model, rows = table
    training = call("train", rows, "-m", tmp_path / "m", "--loss", "softmax", "--quiet")
    assert modules_after(training, "sklearn", "pydantic", "lineal.linear.fit") == ["lineal.linear.fit"]
    predicting = call("predict", model, rows, "--output", tmp_path / "out")
    assert modules_after(predicting, "sklearn", "pydantic", "numba", "lineal.linear.model") == ["lineal.linear.model"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    assert done(command, "--help").stdout.startswith(f"Usage: lineal {command}")


def test_flags_follow_the_options():
    text = " ".join(done("train", "--help-all").stdout.split())
    for options in (TrainOptions, ReadOptions):
        for field in dataclasses.fields(options):
            flag = flag_of(field.name)
            if field.name in NO_FLAGS:  # the commands know whether they need labels; arrays are no flags
                assert flag not in text
            elif field.name != "verbose":
                assert flag in text
                assert field.metadata["help"][1:].split()[-1] in text
    assert "--fit-intercept / --no-fit-intercept" in text
    assert "[default: squared_hinge]" in text


def test_version_and_no_arguments():
    assert done("--version").stdout == f"lineal {lineal.__version__}\n"
    assert "Commands:" in done().stdout


def test_exit_codes_and_no_traceback(tmp_path):
    result = shell("train", tmp_path / "nowhere.svm", "-m", tmp_path / "m")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"lineal: error: {tmp_path / 'nowhere.svm'} does not exist\n"
    assert shell("--version").returncode == 0


def test_a_full_disk_behind_standard_output(table):
    model, rows = table
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w") as full:
        command = [*program(), "predict", str(model), str(rows)]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
    assert result.returncode == 2
    assert result.stderr.startswith("lineal: error: ")
    assert len(result.stderr.splitlines()) == 1


def test_labels_that_the_terminal_cannot_show(tmp_path):
    rows, model = tmp_path / "rows.csv", tmp_path / "m"
    rows.write_text("x,kind\n" + "0,né\n1,oui\n" * 3, encoding="utf-8")
    done("train", rows, "-m", model, "--loss", "softmax", "--quiet")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert "n\\xe9" in shell("inspect", model, env=ascii_only).stdout
    assert shell("predict", model, rows).stdout.split() == ["né", "oui"] * 3


def test_a_closed_pipe_is_quiet(table):
    model, rows = table
    command = [*program(), "predict", str(model), str(rows), "--proba", "--block-bytes", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "no\tyes\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(240) == 141


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
def test_interrupt_saves_the_best_model(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 100)) * np.logspace(0, -4, 100)  # badly scaled: it takes many iterations
    np.savez(tmp_path / "long.npz", X=X, y=rng.integers(0, 3, 20_000))
    model = tmp_path / "long.model"
    options = ["--loss", "softmax", "--tol", "1e-14", "--alpha", "1e-9", "--max-iter", "100000000", "--verbose"]
    command = [*program(), "train", str(tmp_path / "long.npz"), "-m", str(model), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "iteration" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "the best model so far is in" in errors
    assert "status: interrupted" in out
    assert lineal.load(model).status == "interrupted"


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
def test_interrupt_before_training_leaves_nothing(tmp_path):
    command = [*program(), "train", "-", "--format", "svmlight", "-m", str(tmp_path / "m")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin is not None
    # A pipe holds 64 kB: when more than that has been taken, the program is reading.
    process.stdin.write("1 1:1\n2 1:2\n" * 20_000)
    process.stdin.flush()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert errors == "lineal: interrupted\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_termination_leaves_nothing(tmp_path, name):
    command = [*program(), "convert", "-", str(tmp_path / "d.arrow"), "--format", "svmlight"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdin is not None
    process.stdin.write("1 1:1\n2 1:2\n" * 20_000)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while len(os.listdir(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(os.listdir(tmp_path)) == 2  # the folder of the layout, and the copy of standard input
    process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=240)
    assert (process.returncode, errors) == (143, "")
    assert os.listdir(tmp_path) == []


def test_signals_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    with orderly_end():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    thread = threading.Thread(target=lambda: orderly_end().__enter__())  # elsewhere signals cannot be set
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.skipif(os.name == "nt", reason="terminals are Unix's")
def test_tables_on_a_terminal(table):
    import pty

    model, _ = table
    parent, child = pty.openpty()
    process = subprocess.Popen([*program(), "inspect", str(model)], stdout=child, stderr=child)
    os.close(child)
    screen = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # how Linux ends a terminal
            break
        if not piece:
            break
        screen += piece
    os.close(parent)
    assert process.wait(240) == 0
    assert "│" in screen.decode()


@pytest.mark.slow
def test_warmup_compiles_once(tmp_path):
    environment = {**os.environ, "LINEAL_CACHE_DIR": str(tmp_path)}
    first = json.loads(shell("warmup", "--json", env=environment).stdout)
    again = shell("warmup", env=environment).stdout
    assert first["compiled"] > 0
    assert again.startswith("nothing to compile")


# ---------------------------------------------------------------------------------------------- signals

#: Starts the program, which gets a signal when it asks for a module, or when it compiles its first kernel.
SIGNALLED = """
import os, signal, sys
number, moment = getattr(signal, sys.argv[1]), sys.argv[2]
sys.argv[1:] = sys.argv[3:]

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Finder)
if moment == "compiling":
    from numba.core import event
    class Compilations(event.Listener):
        def on_start(self, event):
            os.kill(os.getpid(), number)
        def on_end(self, event):
            pass
    event.register("numba:compile", Compilations())
from lineal.cli import main
main()
"""

unix = pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")


def signalled(name, moment, *args, **extra):
    command = [sys.executable, "-c", SIGNALLED, name, moment, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, **extra)


@unix
@pytest.mark.parametrize("moment", ["typer", "hashlib", "numpy", "scipy.sparse", "compiling"])
def test_an_interrupt_of_imports_and_compilation(table, tmp_path, moment):
    _, rows = table
    environment = {**os.environ, "LINEAL_CACHE_DIR": str(tmp_path / "cache")}
    folder = tmp_path / "folder"
    folder.mkdir()
    result = signalled("SIGINT", moment, "train", rows, "-m", folder / "m", env=environment)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "lineal: interrupted\n")
    assert os.listdir(folder) == []


@unix
def test_an_interrupt_while_an_object_is_deleted_is_not_lost():
    code = """
import signal, time
from lineal.cli import orderly_end

class Deleted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

with orderly_end():
    try:
        Deleted()
        for _ in range(600):  # a single long sleep would end before the interrupt is noticed
            time.sleep(0.1)
        print("lost")
    except KeyboardInterrupt:
        print("interrupted")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert (result.returncode, result.stdout, result.stderr) == (0, "interrupted\n", "")


@unix
def test_termination_while_kernels_are_compiled(table, tmp_path):
    _, rows = table
    environment = {**os.environ, "LINEAL_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    result = signalled("SIGTERM", "compiling", "train", rows, "-m", tmp_path / "m", env=environment)
    assert (result.returncode, result.stdout, result.stderr) == (143, "", "")
    assert not (tmp_path / "m").exists()


@unix
def test_ignored_signals_stay_ignored(table, tmp_path):
    """As under `nohup`, and in the background of a script."""
    _, rows = table
    for name in ("SIGINT", "SIGHUP"):
        ignored = {"preexec_fn": lambda: signal.signal(getattr(signal, name), signal.SIG_IGN)}  # noqa: B023
        result = signalled(name, "scipy.sparse", "train", rows, "-m", tmp_path / name, "--loss", "softmax", **ignored)
        assert (result.returncode, result.stderr) == (0, "")
        assert lineal.load(tmp_path / name).status == "converged"


# ---------------------------------------------------------------------------------------------- terminals


def on_a_terminal(*args: object) -> tuple[int, str]:
    """What a command writes to a terminal."""
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen([*program(), *map(str, args)], stdout=child, stderr=child)
    os.close(child)
    screen = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # how Linux ends a terminal
            break
        if not piece:
            break
        screen += piece
    os.close(parent)
    return process.wait(240), screen.decode()


@pytest.mark.skipif(os.name == "nt", reason="terminals are Unix's")
def test_labels_and_names_cannot_command_a_terminal(tmp_path):
    evil = "\x1b]0;owned\x07 \x9b31m \u202eabc [bold]"
    folder = tmp_path / "place \x1b[31m"
    folder.mkdir()
    rows, model = folder / "rows.csv", folder / "m"
    rows.write_text(f"x,{evil},label\n" + f"0,1,{evil}\n1,0,good\n" * 5, encoding="utf-8")
    done("train", rows, "-m", model, "--loss", "softmax", "--quiet")
    learned, other, warned = folder / "learned.vw", folder / "other.vw", folder / "w"
    learned.write_text("1 |a x |b y\n-1 |a y |b x\n" * 3)
    other.write_text("1 |a x\n-1 |a y\n")  # which a warning says, with the name of the file
    done("train", "--online", learned, "-m", warned, "--expansion", "quadratic", "--interactions", "a*b", "--quiet")
    for args in (
        ("predict", warned, other), ("evaluate", warned, other), ("inspect", warned), ("convert", rows, rows),
        ("predict", model, rows), ("predict", model, rows, "--json", "--proba"), ("predict", model, rows, "--proba"),
        ("evaluate", model, rows), ("evaluate", model, rows, "--json"), ("inspect", model, "--features"),
        ("inspect", model, "--json"), ("inspect", folder / "none"), ("predict", model, folder / "none"),
        (evil,), ("train", rows, "-m", model, "--loss", evil),
        ("train", rows, "-m", model, "--class-weight", f"{evil}=2"),
    ):  # fmt: skip
        _, screen = on_a_terminal(*args)
        for unsafe in ("\x1b]", "\x07", "\x9b", "\u202e", "\x1b[31m"):
            assert unsafe not in screen, args
    assert "\\x1b" in on_a_terminal("predict", model, rows)[1]
    assert "\\x1b" in on_a_terminal("evaluate", warned, other)[1]
    # Machines get the labels as they are.
    assert done("predict", model, rows).stdout.splitlines()[0] == evil
    assert json.loads(done("predict", model, rows, "--json").stdout.splitlines()[0])["label"] == evil
    assert evil in json.loads(done("inspect", model, "--json").stdout)["classes"]
