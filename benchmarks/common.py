"""What the benchmark scripts share: the clock, the table on screen and the JSON file."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from lineal.core.threads import available_cores

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("lineal", "numpy", "scipy", "numba", "scikit-learn", "pyarrow")


def measure(function: Callable[[], Any], repeats: int = 3) -> float:
    """The least wall-clock seconds of `repeats` calls. Warm up first where something compiles."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and its seconds."""
    start = time.perf_counter()
    found = function()
    return found, time.perf_counter() - start


class Process(NamedTuple):
    """A process that has ended: what it printed, and its seconds by the clock and of the processor."""

    output: str
    seconds: float
    cpu: float

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON value that it printed on its last line."""
        return json.loads(self.output.splitlines()[-1])


def whole_process(command: Sequence[str]) -> Process:
    """Run a command to its end; a RuntimeError with the end of what it said if it fails.

    Python may write bytecode, as it is there for an installed package: run once before you measure.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, err):
            file.seek(0)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)[:200]}\n{err.read().decode(errors='replace')[-2000:]}")
        return Process(out.read().decode(), seconds, used.ru_utime + used.ru_stime)


def peak_gb() -> float:
    """Resident memory of this process, at most so far. Where there is /proc, not that of the process it came from."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print rows; floats with three significant digits, ratios (columns named "… ratio") with a ×."""
    names = list(columns)
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(names):
        table.add_column(name, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in zip(names, row)))
    console = Console()
    console.width = max(console.width, console.width if console.is_terminal else 180)  # files have room
    console.print(table)


def markdown_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The same rows as a Markdown table below a heading, for the documentation."""
    names = list(columns)
    lines = [f"### {title}", "", f"| {' | '.join(names)} |", f"|---|{'--:|' * (len(names) - 1)}"]
    lines += [f"| {' | '.join(_cell(name, value) for name, value in zip(names, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.1f}×" if name.endswith("ratio") else f"{value:.3g}"
    return str(value)


def machine() -> dict[str, Any]:
    """Date, machine and versions, for the head of a result."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cores": available_cores(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def write_json(path: str | Path, payload: dict[str, Any]) -> None:
    """Write a result with the machine it was measured on; folders are made as needed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**machine(), **payload}, indent=2, ensure_ascii=False) + "\n")
