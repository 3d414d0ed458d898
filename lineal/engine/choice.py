"""Names of the engines, and the check of the options that choose one; help texts read this without Numba."""

from __future__ import annotations

from lineal.errors import OptionError, unknown_value
from lineal.system.memory import parse_size

ENGINES = ("auto", "local", "file", "dask")


def check_engine(engine: str, memory_budget: str | int | None) -> None:
    """Refuse an unknown engine, a memory budget that is no number of bytes, and one for another engine."""
    if engine not in ENGINES:
        raise unknown_value("engine", engine, ENGINES)
    if memory_budget is not None:
        parse_size(memory_budget)
        if engine in ("local", "dask"):
            raise OptionError(f"memory_budget={memory_budget!r} is for engine='file', not {engine!r}")
