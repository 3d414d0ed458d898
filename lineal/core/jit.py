"""The decorator of all compiled functions. A kernel comes from lineal's wheel, else from the disk, else from Numba.

`shipped` has the kernels of the wheel, `kernel_files` those that this machine has compiled before.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numba
import numpy as np
from numba.core import types

from lineal.core import shipped, threads
from lineal.core.kernel_files import KernelFiles, Key, cache_folders, name_of
from lineal.core.numba_internals import CacheInterface, event, index_key, rebuild_result, runtime, settings
from lineal.core.slim import without_bitcode
from lineal.core.sources import digest

#: Only the flags that keep NaN and infinity meaningful.
SAFE_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether kernels stay plain Python (``NUMBA_DISABLE_JIT=1``).
IS_PLAIN = bool(settings.DISABLE_JIT)

F = TypeVar("F", bound=Callable[..., Any])

#: Names of the kernels that this process could not load when it needed them, and has compiled or waited for; in order.
compiled: list[str] = []

#: Kernels that Python has called, in order: modules, names, and Numba's types of arguments.
needed: list[tuple[str, str, tuple[Any, ...]]] = []


class _CompilationDepth(event.Listener):
    """Number of running compilations: one for a kernel, and more while it waits for kernels that it calls."""

    def __init__(self) -> None:
        self.depth = 0

    def on_start(self, event: Any) -> None:
        """Record that a compilation begins. Numba's lock allows only one thread at a time to compile."""
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """Record that a compilation has ended, whether or not it succeeded."""
        self.depth -= 1


_compilations = _CompilationDepth()
event.register("numba:compile", _compilations)


def is_compiling() -> bool:
    """Whether some thread of this process is compiling a kernel."""
    return _compilations.depth > 0


class _KernelCache(CacheInterface):
    """Cache that a Numba dispatcher loads compiled code from; it announces kernels that must be compiled."""

    _index_key: Any = index_key

    def __init__(self, function: Callable[..., Any], suffix: str = "") -> None:
        self._py_func, self._is_linked = function, suffix != ""
        plain = function.__qualname__.replace("<", "").replace(">", "")  # Windows has no such file names
        self.files = KernelFiles(f"{function.__module__}.{plain}{suffix}", *cache_folders())

    @property
    def cache_path(self) -> str:
        """Folder for new kernels."""
        return str(self.files.destination)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Compiled code for a signature; None if Numba must compile it."""
        threads.raise_if_cancelled()
        runtime.initialize(target_context)  # what loaded code calls; Numba's registries are for compiling only
        if not self._is_linked:
            function = self._py_func
            needed.append((function.__module__, function.__qualname__, tuple(getattr(sig, "args", sig))))
        key = self.key(sig, target_context.codegen())
        found = None
        if key is not None:
            found = self._rebuilt(self._shipped(key), sig, target_context)
            if found is None:
                found = self._rebuilt(self.files.load(key), sig, target_context)
        if found is None:
            compiled.append(self._py_func.__name__)
            if self._is_linked:
                _outlook.step()
            else:
                _look_ahead()
            _announce(self._py_func.__name__)
            if not self._is_linked and key is not None and _has_been_made():
                found = self._rebuilt(self.files.load(key), sig, target_context)
                if found is not None:
                    _announce(None)
        return found

    def key(self, sig: Any, codegen: Any) -> Key | None:
        """Key of the kernel for a signature; None if it cannot be cached."""
        sources = digest(self._py_func.__module__, getattr(sig, "args", sig))
        if sources is None:
            return None
        signature, target, code = self._index_key(sig, codegen)
        return Key(signature, target, (*code, self._py_func.__code__.co_firstlineno), sources)

    def _shipped(self, key: Key) -> Any:
        """Data of the kernel in the archive for this processor, where keys name the level and no other features."""
        archive = shipped.find().archive
        if archive is None:
            return None
        return archive.load(name_of(self.files.base, key._replace(target=(key.target[0], archive.level, ""))))

    def _rebuilt(self, data: Any, sig: Any, target_context: Any) -> Any:
        """Compiled code from data; None if they are of another version, say, or somebody else's under our name."""
        if data is None:
            return None
        with contextlib.suppress(Exception):
            found = rebuild_result(target_context, *data)
            if tuple(found.signature.args) == tuple(getattr(sig, "args", sig)):
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, unless it contains addresses of this process."""
        key = self.key(sig, data.codegen)
        if key is not None and not data.library.has_dynamic_globals and all(part.can_cache for part in data.lifted):
            reduced = data._reduce()
            self.files.save(key, reduced if self._is_linked else without_bitcode(reduced))
        _announce(None)

    def enable(self) -> None:
        """Do nothing, because the cache is always on."""

    def disable(self) -> None:
        """Do nothing, because the cache is always on."""

    def flush(self) -> None:
        """Do nothing, because every kernel is written immediately."""


class _Outlook:
    """Number of the kernel that is missing among those of the fit, and of all of them, as far as that is known.

    `more` are kernels that are not in the forecasts: those that only other kernels call, and those of earlier fits.
    The number rises with every kernel.
    """

    def __init__(self) -> None:
        self.position, self.total, self.more = 0, 0, 0

    def step(self) -> None:
        """Count a kernel that only other kernels call, or one of which no forecast knows."""
        self.position, self.total, self.more = self.position + 1, self.total and self.total + 1, self.more + 1

    def see(self, position: int, total: int) -> None:
        """Take note of a forecast."""
        self.more = max(self.more, self.position + 1 - position)
        self.position, self.total = position + self.more, total + self.more

    def __str__(self) -> str:
        return f"{self.position} of about {self.total}" if self.total else str(self.position)


_outlook = _Outlook()


def _look_ahead() -> None:
    """Find out what will be needed after the kernel that is missing, and have it compiled by another process."""
    from lineal.core import ahead  # not imported where nothing is missing

    seen = ahead.this.look(needed)
    if seen is not None:
        _outlook.see(seen.position, seen.total)
    else:
        _outlook.step()
        _outlook.total = 0


def _has_been_made() -> bool:
    """Whether the other process has compiled the kernel that is missing, or is just doing that."""
    from lineal.core import ahead

    return ahead.this.has_made()


def _announce(name: str | None) -> None:
    """Tell a person at a terminal that kernels are being compiled; `None` deletes the message."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError):  # the terminal may be gone
        if name is not None:
            _explain_once()
        if sys.stderr.isatty():
            text = "" if name is None else f"lineal: compiling kernel {_outlook}, {name} …, once"
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


@functools.cache
def _explain_once() -> None:
    """Say why the kernels of the wheel are of no use here, if there are any."""
    if why_not := shipped.find().why_not:
        sys.stderr.write(f"lineal: its compiled kernels cannot be used here, and are compiled once: {why_not}\n")


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(
    *, inline: str = ..., fastmath: Any = ..., forceinline: bool = ..., borrows: bool = ...
) -> Callable[[F], F]: ...
def kernel(
    function: Any = None, *, inline: str = "never", fastmath: Any = SAFE_FASTMATH, forceinline: bool = False,
    borrows: bool = False,
) -> Any:  # fmt: skip
    """Compile a function with Numba on its first call: without the GIL, cached on disk, with safe fast maths.

    With ``NUMBA_DISABLE_JIT=1`` the function stays plain Python. A kernel is serial: threads run several of them over
    disjoint rows, columns or classes (`lineal.core.threads`). `forceinline` makes LLVM inline it whatever its size.

    `borrows` leaves out Numba's reference counts: its arrays belong to the caller, who keeps them alive. Reading an
    array from a tuple, or passing one on, otherwise costs two atomic operations, which is more than many small
    functions do. Use it for loops over rows whose body reads tuples of arrays, or calls functions that take arrays
    (parsing text takes half the time with it). Such a kernel can neither make nor return arrays: Numba refuses to
    compile it. It may call kernels that make arrays for themselves.
    """
    if function is None:
        return functools.partial(kernel, inline=inline, fastmath=fastmath, forceinline=forceinline, borrows=borrows)
    if IS_PLAIN:
        return np.errstate(over="ignore")(function)  # wrap-around of integers is meant, and silent in compiled code
    options: dict[str, Any] = {"fastmath": set(fastmath), "inline": inline, "forceinline": forceinline}
    options["no_cfunc_wrapper"] = True  # a copy for callers in C, who do not exist
    options["_nrt"] = not borrows  # always given: otherwise it is inherited from the kernel that calls this one
    dispatcher = _dispatcher(function, options)
    _separate_inner_calls(dispatcher, function, options)
    return dispatcher


def _dispatcher(function: Callable[..., Any], options: dict[str, Any], suffix: str = "") -> Any:
    found = numba.njit(nogil=True, error_model="numpy", **options)(function)
    found._cache = _KernelCache(function, suffix)
    return found


def _separate_inner_calls(dispatcher: Any, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Make kernels call a twin of a kernel, which Python cannot call.

    It lacks the code that turns Python's objects into arguments, which is a good part of what there is to compile, and
    most kernels that others call are called by others only. Constants have the type of all numbers there: Numba would
    compile a kernel once for every number that it is called with.
    """

    @functools.cache
    def inner() -> Any:
        return _dispatcher(function, {**options, "no_cpython_wrapper": True}, ".inner")

    def get_call_template(args: Any, kws: Any) -> Any:
        named = {name: types.unliteral(one) for name, one in kws.items()}
        return inner().get_call_template(tuple(map(types.unliteral, args)), named)

    def get_overload(signature: Any) -> Any:
        return inner().get_overload(signature)

    dispatcher.get_call_template, dispatcher.get_overload = get_call_template, get_overload
