"""Run every benchmark in turn: ``python -m benchmarks [--data DIR]``."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

#: Files that are no benchmarks, or that need another checkout to compare with.
SHARED = {"__main__", "common", "datasets", "parts", "versions"}


def main() -> int:
    """Each in a process of its own, so that none warms up another; the last failure's exit code."""
    code = 0
    for name in sorted({module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])} - SHARED):
        print(f"\n=== {name}", flush=True)
        code = (
            subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=False).returncode or code
        )
    return code


if __name__ == "__main__":
    raise SystemExit(main())
