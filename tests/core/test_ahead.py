"""The helper that compiles ahead: what it makes is found, and nothing depends on it or is left of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lineal.core import ahead, forecast, jit, kernel_files
from lineal.core.ahead import Ahead, Helper, may_start

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="there is no helper"),
    pytest.mark.skipif(jit.IS_PLAIN, reason="nothing is compiled"),
]

ROOT = Path(__file__).resolve().parents[2]

#: Seconds that nothing here takes, on however busy a machine.
LONG = 300.0

#: A kernel that compiles quickly.
SMALL = "count_nonzero_rows"


def small() -> int:
    return next(number for number, kernel in enumerate(forecast.records().kernels) if kernel.name == SMALL)


def eventually(holds) -> bool:
    deadline = time.monotonic() + LONG
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


def is_running(group: int) -> bool:
    """Whether a group has a process, other than ones that have ended and nobody has asked about."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group, *_ = entry.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state != "Z":
                return True
    return False


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LINEAL_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def helper(cache):
    one = Helper()
    yield one
    one.stop()


def test_what_is_wanted_is_compiled_into_the_cache(helper, cache):
    helper.want([small()])
    assert eventually(lambda: helper.read() or helper.made == {small()})
    assert helper.wait_for(small())
    assert [path.name.split(".")[3] for path in cache.rglob("*.kernel")] == [SMALL]


def test_the_helper_uses_the_cache_of_a_process_that_has_gone_elsewhere(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("LINEAL_CACHE_DIR", folder := f"cache-{tmp_path.name}")
    monkeypatch.chdir(tmp_path / "first")
    kernel_files.absolute(folder)
    monkeypatch.chdir(tmp_path / "second")
    helper = Helper()
    helper.want([small()])
    assert eventually(lambda: helper.read() or helper.made == {small()})
    helper.stop()
    assert list((tmp_path / "first").rglob("*.kernel"))
    assert not list((tmp_path / "second").iterdir())


def test_a_kernel_that_cannot_be_compiled_does_not_end_the_helper(helper):
    nonsense = len(forecast.records().kernels) + 5
    helper.want([nonsense, small()])
    assert eventually(lambda: helper.read() or helper.made == {nonsense, small()})
    assert helper.is_alive


def test_nobody_waits_for_a_helper_that_has_ended(helper):
    helper.current = 7  # as if it had begun with that
    os.killpg(helper._process.pid, signal.SIGKILL)
    assert not helper.wait_for(7)
    helper.want([1])  # without an error
    assert not helper.is_alive
    assert helper.has_failed


def test_nobody_waits_for_ever_for_a_helper_that_is_stopped(helper, monkeypatch):
    monkeypatch.setattr(ahead, "PATIENCE", 0.2)
    os.killpg(helper._process.pid, signal.SIGSTOP)
    helper.current = 7
    assert not helper.wait_for(7)
    for _ in range(3000):
        helper.want(range(ahead.MOST))  # never waits for a full pipe


def test_a_helper_without_work_ends(cache, monkeypatch):
    monkeypatch.setattr(ahead, "CODE", ahead.CODE.replace("ahead.serve", "ahead.IDLE = 0.1; ahead.serve"))
    helper = Helper()
    assert eventually(lambda: not helper.is_alive)
    helper.stop()


@pytest.mark.parametrize("flags", [("-I",), ("-E", "-s", "-B", "-O"), ()])
def test_no_module_of_the_current_folder_is_executed(tmp_path, flags):
    for name in ("json.py", "textwrap.py", "numba.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n")
    path = ["", *(one for one in sys.path if one != "")]
    code = f"import os, sys; sys.path[:] = {path!r}; from lineal.core import ahead; print(ahead.command())"
    code += f"; os.chdir({str(tmp_path)!r})"
    code += "; one = ahead.Helper(); one.want([10**6]); print(one.wait_for(10**6) or one.is_alive); one.stop()"
    done = subprocess.run(
        [sys.executable, "-P", *flags, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=LONG,
        env={**os.environ, "LINEAL_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    command, is_alive = done.stdout.splitlines()
    assert is_alive == "True"
    assert not (tmp_path / "executed").exists()
    assert all(flag in command for flag in flags)


def test_a_program_that_waits_for_its_children_does_not_wait_for_the_helper(helper):
    with pytest.raises(ChildProcessError):
        os.waitpid(-helper._process.pid, os.WNOHANG)


START = """
import os, sys
from lineal.core import ahead
ahead.this.helper = ahead.Helper()
ahead.this.helper.want(range(200))
print(ahead.this.helper._process.pid, flush=True)
{then}
"""


@pytest.mark.parametrize(
    "then",
    ["", "os._exit(0)", "os.kill(os.getpid(), 9)", "raise KeyboardInterrupt",
     "os._exit(0) if os.fork() else (print(ahead.this.helper is None, flush=True), sys.stdin.read())"],
)  # fmt: skip
def test_the_helper_ends_with_its_process(cache, then):
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", START.format(then=then)], text=True, cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    pid = int(process.stdout.readline())
    if "fork" in then:
        assert process.stdout.readline() == "True\n"  # the forked process forgets the helper, and lives on
    process.wait(LONG)
    assert eventually(lambda: not is_running(pid))
    said = process.communicate()[1]  # which closes its standard input, for which the forked process waits
    assert said == "" or then.startswith("raise")


def test_where_no_helper_is_started(monkeypatch, tmp_path):
    (quota := tmp_path / "cpu.max").write_text("150000 100000\n")  # one and a half cores
    monkeypatch.setattr(ahead, "QUOTA", tmp_path / "none")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(ahead.threads, "available_cores", lambda: 2)
    monkeypatch.setattr(ahead.multiprocessing, "parent_process", lambda: None)
    monkeypatch.setattr(ahead, "cache_folder", lambda: Path("cache"))
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3.11")
    monkeypatch.delitem(sys.modules, "distributed.worker", raising=False)
    assert may_start()
    for owner, name, value in (
        (os, "getloadavg", lambda: (1000.0, 0.0, 0.0)),
        (ahead.threads, "available_cores", lambda: 1),
        (ahead.multiprocessing, "parent_process", lambda: "a pool's"),
        (ahead, "cache_folder", lambda: None),
        (sys, "executable", "/usr/bin/uwsgi"),
        (sys, "executable", None),
        (ahead, "QUOTA", quota),
        (os, "name", "nt"),
    ):
        with monkeypatch.context() as change:
            change.setattr(owner, name, value)
            assert not may_start(), name
    with monkeypatch.context() as change:
        change.setitem(sys.modules, "distributed.worker", ahead)  # as in a worker of Dask
        assert not may_start()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not may_start()


def needed(*numbers):
    kernels = [forecast.records().kernels[number] for number in numbers]
    return [(one.module, one.name, tuple(map(forecast.type_of, one.arguments))) for one in kernels]


def test_a_process_that_may_not_start_others_goes_on_alone(monkeypatch):
    def refuse(*given, **names):
        raise PermissionError

    monkeypatch.setattr(ahead, "may_start", lambda: True)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    one = Ahead()
    fit = max(forecast.records().fits, key=len)
    assert one.look(needed(*fit[:5])).position == 5
    assert not one.has_made()
    assert (one.helper, one.is_on) == (None, False)


def test_after_a_helper_that_dies_at_its_start_none_is_started(monkeypatch, cache):
    monkeypatch.setattr(ahead, "may_start", lambda: True)
    monkeypatch.setattr(ahead, "CODE", "raise SystemExit(1)")
    one = Ahead()
    fit = max(forecast.records().fits, key=len)
    one.look(needed(*fit[:2]))
    one.look(needed(*fit[:3]))
    assert (one.helper, one.is_on) == (None, False)


def test_what_is_to_come_is_told_to_the_helper(monkeypatch):
    told = []

    class Listener:
        is_alive, has_failed = True, False

        def want(self, numbers):
            told.append(list(numbers))

        def wait_for(self, number):
            return number == fit[1]

    monkeypatch.setattr(ahead, "may_start", lambda: True)
    monkeypatch.setattr(ahead, "Helper", Listener)
    fit = max(forecast.records().fits, key=len)
    one, asked = Ahead(), needed(*fit)
    seen = [one.look(asked[: i + 1]) for i in range(len(fit))]
    assert not one.has_made()
    assert seen[-1].total == len(fit)
    assert [here.position for here in seen] == sorted(here.position for here in seen)
    assert all(not {*fit[: i + 1]} & {*numbers} for i, numbers in enumerate(told))
    assert told[-2] == [fit[-1]]
    other = Ahead()
    other.look(asked[:1])
    other.look([*asked[:2], ("module", "of somebody", ())])  # no kernel of lineal's
    assert not other.has_made()


def test_a_person_at_a_terminal_sees_how_far_it_is(cache):
    """The number rises with every kernel, also with one that only kernels call, or of which nothing is known."""
    import pty

    code = f"""
from lineal.core import ahead, forecast, maths
ahead.this.is_on = False
kernels = forecast.records().kernels
for number in ({small()}, [kernel.name for kernel in kernels].index("shuffle")):
    kernels[number].compile()
maths.sigmoid(0.0)
"""
    reader, writer = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=writer, cwd=ROOT, check=True)
    os.close(writer)
    shown = os.read(reader, 65536).decode()
    os.close(reader)
    found = re.findall(r"compiling kernel (\d+)(?: of about (\d+))?, (\w+) …, once", shown)
    names, positions = [name for _, _, name in found], [int(position) for position, _, _ in found]
    assert names[:4] == [SMALL, "shuffle", "next_below", "next_u64"]
    assert "sigmoid" in names
    assert positions[0] == 1
    assert positions == sorted(set(positions))
    assert all(int(position) <= int(total) for position, total, _ in found if total)
    assert int(found[0][1]) > 1


FIT = """
import numpy as np, sys
from scipy import sparse
import lineal
from lineal.core import ahead, jit, threads
ahead.os.getloadavg = lambda: (0.0, 0.0, 0.0)
threads.available_cores = lambda: 2
ahead.this.is_on = bool(int(sys.argv[1]))
X = sparse.random_array((200, 50), density=0.1, rng=np.random.default_rng(0), format="csr")
W = lineal.LinearClassifier(tol=1e-6, random_state=0, n_jobs=1).fit(X, np.arange(200) % 3).coef_
print(len(jit.compiled), ahead.this.helper is not None, W.tobytes().hex())
"""


@pytest.mark.slow
def test_a_cold_fit_with_a_helper_is_the_same_as_one_without(tmp_path):
    def cold(is_on: int, folder: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", FIT, str(is_on)], capture_output=True, text=True, cwd=ROOT, check=True,
            env={**os.environ, "LINEAL_CACHE_DIR": str(tmp_path / folder)},
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.split()

    alone, helped, cached = cold(0, "alone"), cold(1, "helped"), cold(1, "helped")
    assert alone[1:] == ["False", helped[2]]
    assert helped[1] == "True"
    assert cached == ["0", "False", helped[2]]
