"""Where the rows of a fit are: arrays in this process, files, or a Dask cluster.

`engine="auto"` takes Dask for Dask collections, and for files if a Dask client is active, though not inside of a Dask
task. Other files are read into memory if they take at most half of what is available, and streamed by the file engine
if they are larger.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from lineal.core.inputs import is_lazy
from lineal.data.dataset import Dataset
from lineal.data.formats import may_be_arrow
from lineal.data.source import expand, is_path
from lineal.engine.choice import check_engine
from lineal.engine.source import Source
from lineal.errors import DataError, OptionError
from lineal.system.memory import available_memory, parse_size


def rows_of(
    X: Any,
    y: Any,
    engine: str,
    memory_budget: str | int | None,
    *,
    sample_weight: Any = None,
    offsets: Any = None,
    reading: dict[str, Any] | None = None,
) -> Source | Dataset | None:
    """The rows as a source, or as a dataset that was read from files; None for arrays in this process.

    `reading` are options of `lineal.read`.
    """
    check_engine(engine, memory_budget)
    if is_path(X):
        return _of_files(X, y, engine, memory_budget, sample_weight, offsets, reading or {})
    if is_lazy(X):
        if engine not in ("auto", "dask"):
            raise OptionError(f"engine={engine!r} cannot read Dask collections: leave it out")
        if memory_budget is not None:
            raise OptionError(f"memory_budget={memory_budget!r} is for files: set memory_limit of the Dask workers")
        from lineal.engine.dask.cluster import client_in_use
        from lineal.engine.dask.collections import source_of

        return source_of(client_in_use(), X, y, sample_weight, offsets)
    if engine not in ("auto", "local"):
        wanted = "the path of a converted file" if engine == "file" else "a Dask collection or the path of a file"
        raise OptionError(f"engine={engine!r} needs {wanted}, and X is a {type(X).__name__}: use engine='auto'")
    if memory_budget is not None:
        raise OptionError(f"memory_budget={memory_budget!r} is for files, and X is a {type(X).__name__}")
    return None


def _of_files(
    X: Any, y: Any, engine: str, memory_budget: Any, sample_weight: Any, offsets: Any, reading: dict[str, Any]
) -> Source | Dataset:
    for name, value in (("y", y), ("sample_weight", sample_weight), ("offsets", offsets)):
        if value is not None:
            raise DataError(f"X names a file, so {name} must be None: labels and weights are read from the file")
    paths = expand(X)
    kind = engine if engine != "auto" else _engine_for(paths, memory_budget)
    if kind == "local":
        from lineal.data.read import read

        return read(paths, **reading)
    _need_converted(paths, kind)
    refused = sorted(set(reading) - {"format", "n_jobs"})
    if refused:
        raise OptionError(f"{refused[0]}={reading[refused[0]]!r} has no meaning for converted files in place")
    if kind == "dask":
        from lineal.engine.dask.cluster import client_in_use
        from lineal.engine.dask.files import source_of_files

        return source_of_files(client_in_use(), paths)
    from lineal.engine.file import FileSource

    return FileSource(paths, None if memory_budget is None else parse_size(memory_budget))


def _engine_for(paths: list[str], memory_budget: Any) -> str:
    """The engine for files if none was chosen."""
    if memory_budget is not None:
        return "file"
    if not _are_converted(paths):
        return "local"
    if "distributed" in sys.modules:  # Dask is not imported for this
        from lineal.engine.dask.cluster import is_client_active

        if is_client_active():
            return "dask"
    available = available_memory()
    size = sum(os.path.getsize(path) for path in paths)
    return "file" if available is not None and 2 * size > available else "local"


def _are_converted(paths: list[str]) -> bool:
    if not all(os.path.isfile(path) and may_be_arrow(path) for path in paths):
        return False
    from lineal.data.binary.layout import is_layout

    return all(map(is_layout, paths))


def _need_converted(paths: list[str], engine: str) -> None:
    """Refuse files that are not in the binary layout."""
    from lineal.data.binary.layout import is_damaged, is_layout

    for path in paths:
        if os.path.isfile(path) and is_damaged(path):
            raise DataError(f"{path} is cut or damaged: its first bytes are those of an Arrow file, its end is not")
        if not (os.path.isfile(path) and is_layout(path)):
            raise DataError(
                f"engine={engine!r} needs files in the binary layout, and {path} is none: convert it with "
                f"lineal.convert({path!r}, 'rows.arrow') or `lineal convert {path} rows.arrow`"
            )
