"""A second process that compiles kernels which the first one needs later.

Numba compiles in one thread at a time. When a process lacks a kernel, and the recorded fits say what it will need after
that one (`lineal.core.forecast`), a helper compiles those kernels from the last to the next one, into the same cache on
disk. Both meet in the middle: the first process then loads what the helper has made.

Nothing depends on the helper. It is started by a process that is nobody's worker, where there are two cores that are
not busy, and a cache for both. It reads the numbers of the wanted kernels from its standard input, and ends with the
process at the other end, or after some seconds without work. It writes the number of a kernel when it begins and when
it ends it; the first process waits for a kernel that is being compiled, if the helper lives, which the open pipe shows.

The helper forks when it starts, and the process that was started ends: so it is nobody's child, and no program that
waits for its children waits for it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lineal.core import forecast, threads
from lineal.core.forecast import Forecast, Needed
from lineal.core.kernel_files import PACKAGE, cache_folder, chosen_folders
from lineal.system.files import drop_own_parts

#: Fewest seconds of compiling to come that are worth a process, which takes one of them to import what it needs.
FEWEST = 1.5

#: Most kernels that the helper is told at once: its orders must fit into a pipe as a whole.
MOST = 200

#: Seconds after which a helper without work ends, and longest waits: for one kernel, and for the helper's end.
IDLE, PATIENCE, SOON = 5.0, 60.0, 1.0

#: Where Linux says how much of the cores a container may use: microseconds per period, or "max", and the period.
QUOTA = Path("/sys/fs/cgroup/cpu.max")

#: What the helper runs. It imports lineal from where this process has it.
CODE = (
    "import os; os.fork() and os._exit(0); import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
    "from lineal.core import ahead; ahead.serve()"
)


def command() -> list[str]:
    """How to start Python as this process was started, but never with the current folder on the path.

    A file there that has the name of a module would be executed.
    """
    flags = {
        "-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site,
        "-S": sys.flags.no_site, "-B": sys.dont_write_bytecode, "-O": sys.flags.optimize,
    }  # fmt: skip
    given = [flag for flag, count in flags.items() for _ in range(int(count))]
    return [sys.executable, "-P", *given, "-c", CODE]


def import_path() -> list[str]:
    """The path that this process imports from. Where it names the current folder, that of lineal takes its place.

    The helper imports nothing else, and would execute files of the folder to which this process has gone since.
    """
    known = [one for one in sys.path if isinstance(one, str)]
    own = [] if (folder := str(PACKAGE.parent)) in known else [folder]
    return [path for one in known for path in ([one] if os.path.isabs(one) else own)]


class Helper:
    """The first process's end: what the helper is compiling, and what it has compiled."""

    def __init__(self) -> None:
        caches = {"LINEAL_CACHE_DIR": os.pathsep.join(folders)} if (folders := chosen_folders()) else {}
        self._process = subprocess.Popen(
            command(),
            env={**os.environ, **caches},
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the first process, with which the helper ends
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._reports = self._process.stdin, self._process.stdout
        os.set_blocking(self._orders.fileno(), False)
        os.set_blocking(self._reports.fileno(), False)
        self._unread, self._has_ended = b"", False
        self.current: int | None = None
        self.made: set[int] = set()
        self._process.wait()  # for the process that forks
        self._order(import_path())

    @property
    def is_alive(self) -> bool:
        """Whether it still runs: then nothing else has closed its end of the pipe."""
        self.read()
        return not self._has_ended

    @property
    def has_failed(self) -> bool:
        """Whether it has ended before it began its work, or in the midst of it."""
        return not self.is_alive and (self.current is not None or not self.made)

    def want(self, numbers: Sequence[int]) -> None:
        """Name the kernels to compile, in that order, instead of those that were named before."""
        self._order(list(numbers[:MOST]))

    def _order(self, values: list[Any]) -> None:
        with contextlib.suppress(OSError):  # it has ended, or does not read
            self._orders.write(json.dumps(values).encode() + b"\n")

    def read(self) -> None:
        """Take note of what it has reported."""
        try:
            while content := self._reports.read(4096):
                self._unread += content
            self._has_ended = self._has_ended or content is not None  # None: nothing new
        except (OSError, ValueError):  # ValueError: this end is closed
            self._has_ended = True
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            report = re.fullmatch(rb"(begin|end) (\d+)", line)
            if report is not None:
                number, has_begun = int(report[2]), report[1] == b"begin"
                self.current = number if has_begun else None
                self.made |= set() if has_begun else {number}

    def wait_for(self, number: int) -> bool:
        """Wait while it compiles this kernel. Whether it has been compiled, now or before."""
        deadline = time.monotonic() + PATIENCE
        self.read()
        while self.current == number and self.is_alive and time.monotonic() < deadline:
            threads.raise_if_cancelled()
            time.sleep(0.01)
            self.read()
        return number in self.made

    def leave(self) -> None:
        """Close this process's ends of the pipes, without which the helper ends."""
        self._orders.close()
        self._reports.close()

    def stop(self) -> None:
        """End it now."""
        self._orders.close()
        deadline = time.monotonic() + SOON
        while self.is_alive and time.monotonic() < deadline:
            time.sleep(0.005)
        if self.is_alive:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the group has kept the number of its first process
        self.leave()


class Ahead:
    """What this process will need, and its helper. Numba's lock allows one thread at a time in here."""

    def __init__(self) -> None:
        self.is_on = True
        self.helper: Helper | None = None
        self._numbers: list[int] = []
        self._looked_at = 0
        self._now: int | None = None

    def look(self, needed: Sequence[Needed]) -> Forecast | None:
        """What is to come after the last of the needed kernels, which is missing; the helper is told to compile that.

        `needed` has all kernels that this process has needed so far, of which only the new ones are looked at.
        """
        records = forecast.records()
        *before, self._now = [records.number_of(*one) for one in needed[self._looked_at :]]
        self._numbers += [number for number in before if number is not None]
        self._looked_at = len(needed)
        if self._now is None or (seen := records.forecast(self._numbers, self._now)) is None:
            return None
        self._numbers.append(self._now)
        if (helper := self._present(seen)) is not None:
            helper.want(seen.coming)
        return seen

    def has_made(self) -> bool:
        """Whether the helper has compiled the missing kernel. If it is just doing that, wait for it."""
        return self.helper is not None and self._now is not None and self.helper.wait_for(self._now)

    def _present(self, seen: Forecast) -> Helper | None:
        """The helper, if there is one, or if there is enough to do and one can be started."""
        if self.helper is not None and not self.helper.is_alive:
            self.is_on = not self.helper.has_failed  # another one would fail as well, at every kernel
            self.helper.leave()
            self.helper = None
        if self.helper is None and self.is_on and seen.seconds >= FEWEST and may_start():
            try:
                self.helper = Helper()
            except OSError:
                self.is_on = False
        return self.helper

    def end(self) -> None:
        """End the helper with this process."""
        if self.helper is not None:
            self.helper.stop()
            self.helper = None

    def forget(self) -> None:
        """Forget the helper in a forked process, which has copies of the pipes."""
        if self.helper is not None:
            self.helper.leave()
            self.helper = None


def may_start() -> bool:
    """Whether this process may have a helper: see the beginning of this file."""
    if os.name != "posix" or "frozen" in vars(sys) or not Path(sys.executable or "-").name.startswith("python"):
        return False  # a program with Python inside would start itself
    is_worker = multiprocessing.parent_process() is not None or "distributed.worker" in sys.modules
    if is_worker or threads.available_cores() < 2 or _is_limited() or cache_folder() is None:
        return False
    try:
        return os.getloadavg()[0] < (os.cpu_count() or 1)
    except OSError:
        return False


def _is_limited() -> bool:
    """Whether a container leaves this process less time than that of two cores."""
    try:
        quota, period = QUOTA.read_text().split()
        return quota != "max" and int(quota) < 2 * int(period)
    except (OSError, ValueError):
        return False


def serve() -> None:
    """The helper's side: compile what the other process wants, as long as it is there."""
    this.is_on = False
    wanted: list[int] = []
    has_news = threading.Event()

    def listen() -> None:
        try:
            for line in sys.stdin:
                wanted[:] = json.loads(line)
                has_news.set()
        finally:
            drop_own_parts()
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    tried: set[int] = set()
    while True:
        has_news.clear()
        number = next((one for one in list(wanted) if one not in tried), None)
        if number is None:
            if has_news.wait(IDLE):
                continue
            os._exit(0)  # Python cannot end in order while a thread reads standard input
        tried.add(number)
        print(f"begin {number}", flush=True)
        with contextlib.suppress(Exception):  # the first process finds out itself, with a message
            forecast.records().kernels[number].compile()
        print(f"end {number}", flush=True)


#: That of this process.
this = Ahead()
atexit.register(this.end)
if os.name == "posix":
    os.register_at_fork(after_in_child=this.forget)
