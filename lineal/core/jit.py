"""The one decorator of everything compiled, and the disk cache that makes it compile once a machine.

Numba stamps a cached kernel with its own file only, so a kernel would outlive an edit of the loss that it calls. Here
the cache folder is named after a hash of all sources that kernels can be made of: any edit starts an empty folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
import numpy as np
from numba.core import caching, config

PACKAGE = Path(__file__).resolve().parent.parent

#: Folders whose code never runs inside a kernel: editing them keeps the compiled kernels.
NOT_KERNELS = ("cli", "dropin", "estimators", "report", "search")

#: Only the flags that keep NaN and infinity meaningful.
SAFE_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether kernels stay plain Python (``NUMBA_DISABLE_JIT=1``).
IS_PLAIN = bool(getattr(config, "DISABLE_JIT", False))

#: Folders of older sources that are kept, so that switching between two versions does not compile each time.
KEPT_CACHES = 4

F = TypeVar("F", bound=Callable[..., Any])

#: Names of the kernels compiled (not loaded from disk) by this process, in order.
compiled: list[str] = []


def source_hash(package: Path = PACKAGE) -> str:
    """Hash of every source file that a kernel may be made of, and of the settings that change its machine code."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        if relative.parts[0] not in NOT_KERNELS:
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    settings = (
        numba.__version__,
        getattr(config, "BOUNDSCHECK", None),
        getattr(config, "OPT", None),
        sys.version_info[:2],
    )
    digest.update(repr(settings).encode())
    return digest.hexdigest()


def _candidate_folders() -> list[Path]:
    if chosen := os.environ.get("LINEAL_CACHE_DIR"):
        return [Path(chosen)]
    if numbas := getattr(config, "CACHE_DIR", ""):
        return [Path(numbas) / "lineal"]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return [PACKAGE / "__pycache__", Path(home) / "lineal"]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept: `LINEAL_CACHE_DIR`, the package's own folder, the user's cache, or nowhere."""
    name = f"kernels-{source_hash()}"
    for parent in _candidate_folders():
        folder = parent / name
        is_new = not folder.exists()
        if _is_writable(folder):
            if is_new:
                _drop_old_caches(parent)
            return folder
    return None


def _drop_old_caches(parent: Path) -> None:
    def age(folder: Path) -> float:
        try:
            return -folder.stat().st_mtime
        except OSError:
            return 0.0

    for folder in sorted(parent.glob("kernels-*"), key=age)[KEPT_CACHES:]:
        shutil.rmtree(folder, ignore_errors=True)


class _Locator(caching._CacheLocator):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_file = function.__code__.co_filename
        self._module = function.__module__
        self._line = function.__code__.co_firstlineno

    def ensure_cache_path(self) -> None:
        pass  # cache_folder() has made sure, once for all kernels

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return ""  # the folder's name is the stamp

    def get_disambiguator(self) -> str:
        return f"{self._module}-{self._line}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func)


class _KernelCacheFormat(caching.CompileResultCacheImpl):
    _locator_classes: Any = (_Locator,)


class _KernelFiles(caching.IndexDataCacheFile):
    """Numba's files, safe for processes that compile at the same time.

    Numba numbers the data files from an index that it read before: two processes can give one number to two kernels,
    and either then runs the other's code for good. Here a name is a hash of what was compiled, and data come before
    the index.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest()))
        self._save_data(name, data)
        overloads = self._load_index()
        overloads[key] = name
        self._save_index(overloads)


class _KernelCache(caching.FunctionCache):
    """Numba's own cache, in our folder, that announces what it does not find."""

    _impl_class = _KernelCacheFormat

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        base = self._impl.filename_base
        self._cache_file = _KernelFiles(self._cache_path, base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # a damaged entry is a missing entry
            found = None
        if found is not None and tuple(found.signature.args) != tuple(getattr(sig, "args", sig)):
            found = None  # somebody else's code under our name
        if found is None:
            compiled.append(self._py_func.__name__)
            _announce(self._py_func.__name__)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception:  # a full disk or a damaged index costs the next process a compilation, not this one its fit
            with contextlib.suppress(OSError):
                os.unlink(self._cache_file._index_path)
            self.disable()
        _announce(None)


def _announce(name: str | None) -> None:
    """Tell a person at a terminal why the first fit waits; `None` wipes the line again."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" if name is None else f"\r\x1b[Klineal: compiling {name} …, once")
        sys.stderr.flush()


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
    disjoint rows, columns or classes (`lineal.core.threads`). `forceinline` has LLVM put it into its callers whatever
    its size. `borrows` leaves out Numba's reference counts, of which a look into a tuple of arrays takes two, each an
    atomic operation: for what is called once a row. Such a kernel makes and returns no arrays (Numba refuses to compile
    it), and neither do those that it calls.
    """
    if function is None:
        return functools.partial(kernel, inline=inline, fastmath=fastmath, forceinline=forceinline, borrows=borrows)
    if IS_PLAIN:
        return np.errstate(over="ignore")(function)  # wrap-around of integers is meant, and silent in compiled code
    options: dict[str, Any] = {"fastmath": set(fastmath), "inline": inline, "forceinline": forceinline}
    options["_nrt"] = not borrows  # said either way: what is not said is inherited from whichever kernel compiles it
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if cache_folder() is not None:
        dispatcher._cache = _KernelCache(function)
    return dispatcher
