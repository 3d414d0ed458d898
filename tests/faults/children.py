"""Attempts in a process of their own, which a signal may end: it prints a line of JSON before and after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Bytes of address space that a process may take, and seconds.
MEMORY, SECONDS = 8 << 30, 3600


def run_attempts(program: str, count: int, names: list[str], area: Any) -> None:
    """Run a program of this folder with a memory limit, `count` and names, and count its attempts in a tally."""
    command = [sys.executable, str(Path(__file__).parent / program), str(MEMORY), str(count), *names]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
    begun = None
    for line in done.stdout.splitlines():
        what, problem, is_over = json.loads(line)
        begun = None if is_over else what
        if is_over:
            area.attempt(what, problem)
    if begun is not None:
        area.attempt(begun, f"ended the process with {done.returncode}: {done.stderr[-300:]}")
    else:
        assert done.returncode == 0, done.stderr[-2000:]
