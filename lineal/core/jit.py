"""The decorator of all compiled functions, and the disk cache, so that a machine compiles each of them once.

Numba stores a time stamp of the kernel's own file only, so a cached kernel would survive an edit of the loss that it
calls. Here the cache folder is named after a hash of all sources that kernels can be made of, and of the versions of
the compiler: any change starts an empty folder.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import llvmlite
import numba
import numpy as np

from lineal.core import threads
from lineal.core.numba_internals import CacheInterface, dumps, event, index_key, rebuild_result, settings
from lineal.errors import LinealError
from lineal.system.files import whole_file

PACKAGE = Path(__file__).resolve().parent.parent

#: Folders whose code never runs inside a kernel: editing them keeps the compiled kernels.
NOT_KERNELS = ("cli", "report")

#: Only the flags that keep NaN and infinity meaningful.
SAFE_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Whether kernels stay plain Python (``NUMBA_DISABLE_JIT=1``).
IS_PLAIN = bool(settings.DISABLE_JIT)

#: Folders of older sources that are kept, so that switching between two versions does not compile each time.
KEPT_CACHES = 4

#: Bytes of a kernel file before its contents.
CHECKSUM_BYTES = 16

F = TypeVar("F", bound=Callable[..., Any])

#: Names of the kernels compiled (not loaded from disk) by this process, in order.
compiled: list[str] = []


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


def source_hash(package: Path = PACKAGE) -> str:
    """Hash of all source files that kernels can depend on, and of the settings that change their machine code."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        if relative.parts[0] not in NOT_KERNELS:
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    compiler = (
        numba.__version__,
        llvmlite.__version__,
        settings.BOUNDSCHECK,
        settings.OPT,
        sys.version_info[:2],
    )
    digest.update(repr(compiler).encode())
    return digest.hexdigest()


def _candidate_folders() -> list[Path]:
    if chosen := os.environ.get("LINEAL_CACHE_DIR"):
        return [Path(folder) for folder in chosen.split(os.pathsep) if folder]
    if settings.CACHE_DIR:
        return [Path(settings.CACHE_DIR) / "lineal"]
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
def _cache_folders() -> tuple[tuple[Path, ...], Path | None]:
    """Folders that kernels are loaded from, in that order, and the one that new kernels go to.

    These are the candidates up to the first one that can be written to. Those before it are read-only, as in a
    container image that was warmed up when it was built; they count if they exist.
    """
    name = f"kernels-{source_hash()}"
    found: list[Path] = []
    for parent in _candidate_folders():
        folder = parent / name
        is_new = not folder.exists()
        if _is_writable(folder):
            if is_new:
                _drop_old_caches(parent)
            return (*found, folder), folder
        if os.access(folder, os.R_OK | os.X_OK):
            found.append(folder)
    return tuple(found), None


def cache_folder() -> Path | None:
    """Folder for new kernels: the first candidate that can be written to; None if there is none.

    The candidates are the folders named by `LINEAL_CACHE_DIR`, else the package's own folder and the user's cache.
    """
    return _cache_folders()[1]


def _drop_old_caches(parent: Path) -> None:
    def age(folder: Path) -> float:
        try:
            return -folder.stat().st_mtime
        except OSError:
            return 0.0

    for folder in sorted(parent.glob("kernels-*"), key=age)[KEPT_CACHES:]:
        shutil.rmtree(folder, ignore_errors=True)


class KernelFiles:
    """The cached kernels of one function, one file per signature.

    A file's name is a hash of what was compiled, so that processes that compile at the same time never give one name
    to two kernels. It begins with a checksum of its name and contents: machine code with a wrong bit would end the
    process. A file that does not fit its checksum is a missing file. The checksum finds damage, not malice: contents
    are pickles, and whoever can write to the folder can run code as its user.
    """

    def __init__(self, base: str, sources: Sequence[Path], destination: Path | None) -> None:
        self.base, self.sources, self.destination = base, sources, destination

    def load(self, key: Any) -> Any:
        """Data that was saved under `key`, from the first folder that has it undamaged; None if there is none."""
        name = self._name(key)
        for folder in self.sources:
            try:
                with open(folder / name, "rb") as file:
                    content = file.read()
                if content[:CHECKSUM_BYTES] == _checksum(name, content[CHECKSUM_BYTES:]):
                    return pickle.loads(content[CHECKSUM_BYTES:])
            except Exception:  # whatever is there cannot be used, and is compiled again
                continue
        return None

    def save(self, key: Any, data: Any) -> None:
        """Save `data` for later processes; if the disk is full or read-only, they compile the kernel again."""
        if self.destination is None:
            return
        name, content = self._name(key), dumps(data)
        with contextlib.suppress(OSError, LinealError):
            self.destination.mkdir(parents=True, exist_ok=True)  # somebody may have emptied the cache
            path = self.destination / name
            path.unlink(missing_ok=True)  # it was of no use, and may be read-only
            with whole_file(path, durable=False) as file:
                file.write(_checksum(name, content) + content)

    def _name(self, key: Any) -> str:
        return f"{self.base}.{hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()}.kernel"


def _checksum(name: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES, key=hashlib.sha256(name.encode()).digest()).digest()


class _KernelCache(CacheInterface):
    """Cache that a Numba dispatcher loads compiled code from; it announces kernels that must be compiled."""

    _index_key: Any = index_key

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_func = function
        plain = function.__qualname__.replace("<", "").replace(">", "")  # Windows has no such file names
        base = f"{function.__module__}.{plain}-{function.__code__.co_firstlineno}"
        self.files = KernelFiles(base, *_cache_folders())

    @property
    def cache_path(self) -> str:
        """Folder for new kernels."""
        return str(self.files.destination)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Compiled code for a signature; None if Numba must compile it."""
        threads.raise_if_cancelled()
        target_context.refresh()
        found = None
        data = self.files.load(self._index_key(sig, target_context.codegen()))
        if data is not None:
            with contextlib.suppress(Exception):  # of another version, say: as good as missing
                found = rebuild_result(target_context, *data)
        if found is not None and tuple(found.signature.args) != tuple(getattr(sig, "args", sig)):
            found = None  # somebody else's code under our name
        if found is None:
            compiled.append(self._py_func.__name__)
            _announce(self._py_func.__name__)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, unless it contains addresses of this process."""
        if not data.library.has_dynamic_globals and all(part.can_cache for part in data.lifted):
            self.files.save(self._index_key(sig, data.codegen), data._reduce())
        _announce(None)

    def enable(self) -> None:
        """Do nothing, because the cache is always on."""

    def disable(self) -> None:
        """Do nothing, because the cache is always on."""

    def flush(self) -> None:
        """Do nothing, because every kernel is written immediately."""


def _announce(name: str | None) -> None:
    """Tell a person at a terminal that kernels are being compiled; `None` deletes the message."""
    if sys.stderr is not None and sys.stderr.isatty():
        with contextlib.suppress(OSError):  # the terminal may be gone
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
    options["_nrt"] = not borrows  # always given: otherwise it is inherited from the kernel that calls this one
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    dispatcher._cache = _KernelCache(function)
    return dispatcher
