"""Whether a file that could be mapped into memory is read instead.

A map is read by the system when it is needed, and its pages are shared by processes. But what another process does to
the file happens to the map, too, so files are mapped only where they are large, or where the caller asks for it.
"""

from __future__ import annotations

import os

from lineal.data.source import cannot_read
from lineal.system.memory import available_memory


def is_mapped(path: str, choice: str) -> bool:
    """Whether to map a file: as `choice` says ("yes" or "no"), or where it takes over half of the memory ("auto")."""
    if choice != "auto":
        return choice == "yes"
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    available = available_memory()
    return available is not None and 2 * size > available
