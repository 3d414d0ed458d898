"""Sources that the machine code of a kernel depends on: a cached kernel is valid while none of them changes.

They are the module of the kernel, the modules of the NamedTuples among its arguments, whose methods it may call, and
what these modules import when they are imported. Imports inside functions do not count: kernels cannot see their names.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import types

PACKAGE = __name__.partition(".")[0]

#: Imports at the beginning of a line: what is imported from, and the names.
IMPORTS = re.compile(rf"^(?:from +({PACKAGE}[\w.]*) +import +(\([^)]*\)|[^\n]*)|import +({PACKAGE}[\w.]*))", re.M)

#: What this module imports handles files and threads; it is not part of kernels.
DECORATOR = f"{PACKAGE}.core.jit"

#: Files that have changed since may not be what this process has imported.
_START = time.time()


def digest(module: str, arguments: Iterable[Any]) -> str | None:
    """Hash of the sources of a kernel, by its module and the Numba types of its arguments.

    None if a source cannot be read, or has changed since this process began: the kernel must not be cached.
    """
    return _digest(frozenset((module, *modules_of(arguments))))


def modules_of(arguments: Iterable[Any]) -> Iterator[str]:
    """Modules of the NamedTuples among types, and of their base classes."""
    for argument in arguments:
        if isinstance(argument, types.NamedTuple | types.NamedUniTuple):
            yield from (base.__module__ for base in argument.instance_class.__mro__ if base.__module__ in sys.modules)
        if isinstance(argument, types.BaseTuple):
            parts: Any = argument
            yield from modules_of(parts)


@cache
def _digest(modules: frozenset[str]) -> str | None:
    total = hashlib.blake2b(digest_size=8)
    for name in sorted(closure(modules)):
        source = _source(name)
        if source is None:
            return None
        total.update(name.encode() + b"\0" + source[0])
    return total.hexdigest()


def closure(modules: Iterable[str]) -> set[str]:
    """These modules and all that they import, directly or not, of lineal."""
    found, waiting = set(), set(modules)
    while waiting:
        name = waiting.pop()
        found.add(name)
        source = _source(name)
        if source is not None and name != DECORATOR:
            waiting |= source[1] - found
    return found


@cache
def _source(name: str) -> tuple[bytes, frozenset[str]] | None:
    """Hash of the source of a module, and the modules of lineal that it imports; the outside counts as unchanging."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None if _is_ours(name) else (b"", frozenset())
    path = Path(spec.origin)
    try:
        if _START < path.stat().st_mtime <= time.time():  # a time in the future is that of another clock
            return None
        content = path.read_bytes()
    except OSError:
        return None
    return hashlib.blake2b(content, digest_size=16).digest(), frozenset(_imports(name, content.decode()))


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


def _imports(name: str, source: str) -> Iterator[str]:
    for parent, names, module in IMPORTS.findall(source):
        if module:
            yield module
            continue
        for imported in re.findall(r"\w+", re.sub(r"#.*", "", names)):
            yield child if (child := f"{parent}.{imported}") in sys.modules else parent
