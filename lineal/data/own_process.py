"""What a process of the command line can do without, because no other code than lineal's runs in it."""

from __future__ import annotations

import sys
from typing import Any

_is_own = False


def claim() -> None:
    """Say that this process runs a command and nothing else."""
    global _is_own
    _is_own = True


def keep_pandas_out() -> None:
    """In such a process, let PyArrow look for pandas once in vain.

    PyArrow imports pandas, where it is installed, for its first array, to know tables of pandas when it sees one. That
    takes longer than reading a small file, and commands read files only.
    """
    if not _is_own or "pandas" in sys.modules:
        return
    import pyarrow

    sys.meta_path.insert(0, _NO_PANDAS)
    try:
        pyarrow.scalar(0)
    finally:
        sys.meta_path.remove(_NO_PANDAS)


class _NoPandas:
    """A finder of modules that says that there is no pandas."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """An ImportError for pandas; nothing for other modules."""
        if name == "pandas":
            raise ModuleNotFoundError("commands do not use pandas", name=name)


_NO_PANDAS: Any = _NoPandas()
