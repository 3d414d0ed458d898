"""How much memory a fit takes, asked before it is taken: the system ends greedy processes without a word."""

from __future__ import annotations

import os

from lineal.errors import DataError


def check_fit(solver: str, needed: int, shape: tuple[int, int], n_columns: int) -> None:
    """Refuse a fit whose weights and workspace do not fit into the memory that there is."""
    available = available_memory()
    if available is not None and needed > available:
        d = shape[1]
        raise DataError(
            f"{solver} needs {size(needed)} of memory ({needed} bytes) for {d} features × {n_columns} classes and "
            f"{shape[0]} rows, but {size(available)} are available: use fewer features (--n-features, --bits), fewer "
            "classes or float32 data"
        )


def available_memory() -> int | None:
    """Bytes that can be had without ending other programs; all of the machine's where only that is known."""
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def size(count: int) -> str:
    """Bytes with a unit."""
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000.0:
            return f"{number:.4g} {unit}"
        number /= 1000.0
    return f"{number:.4g} TB"
