"""Compiled kernels on disk: their names, their checksums, and the folders that they are in.

Numba stores a time stamp of the kernel's own file only, so a cached kernel would survive an edit of the loss that it
calls. Here a kernel's name has a hash of all sources that it depends on (`lineal.core.sources`), and the cache folder
is named after the versions of the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba

from lineal.core.numba_internals import dumps, settings
from lineal.core.slim import loaded
from lineal.errors import LinealError
from lineal.system.files import whole_file

PACKAGE = Path(__file__).resolve().parent.parent

#: Folders for older compilers, and kernels of older sources, that are kept: switching between two versions of lineal
#: that share a cache does not compile each time.
KEPT_CACHES, KEPT_VERSIONS = 4, 6

#: Bytes of a kernel file before its contents.
CHECKSUM_BYTES = 16


def compiler_hash() -> str:
    """Hash of the versions and settings of the compiler, which change the machine code of all kernels."""
    compiler = (
        numba.__version__,
        llvmlite.__version__,
        settings.BOUNDSCHECK,
        settings.OPT,
        sys.version_info[:2],
    )
    return hashlib.blake2b(repr(compiler).encode(), digest_size=8).hexdigest()


@functools.cache
def absolute(folder: str) -> str:
    """The path of a folder, seen from where this process was when it first asked for it."""
    return os.path.abspath(folder)


def chosen_folders() -> list[str]:
    """The absolute paths that `LINEAL_CACHE_DIR` names, if any."""
    return [absolute(folder) for folder in os.environ.get("LINEAL_CACHE_DIR", "").split(os.pathsep) if folder]


def _candidate_folders() -> list[Path]:
    if os.environ.get("LINEAL_CACHE_DIR"):
        return list(map(Path, chosen_folders()))
    if settings.CACHE_DIR:
        return [Path(absolute(settings.CACHE_DIR)) / "lineal"]
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
def cache_folders() -> tuple[tuple[Path, ...], Path | None]:
    """Folders that kernels are loaded from, in that order, and the one that new kernels go to.

    These are the candidates up to the first one that can be written to. Those before it are read-only, as in a
    container image that was warmed up when it was built; they count if they exist.
    """
    name = f"kernels-{compiler_hash()}"
    found: list[Path] = []
    for parent in _candidate_folders():
        folder = parent / name
        is_new = not folder.exists()
        if _is_writable(folder):
            if is_new:
                _keep_newest(parent.glob("kernels-*"), KEPT_CACHES)
            return (*found, folder), folder
        if os.access(folder, os.R_OK | os.X_OK):
            found.append(folder)
    return tuple(found), None


def cache_folder() -> Path | None:
    """Folder for new kernels: the first candidate that can be written to; None if there is none.

    The candidates are the folders named by `LINEAL_CACHE_DIR`, else the package's own folder and the user's cache.
    """
    return cache_folders()[1]


def _keep_newest(paths: Iterable[Path], number: int) -> None:
    """Remove all files and folders but the newest ones."""

    def age(path: Path) -> float:
        try:
            return -path.stat().st_mtime
        except OSError:
            return 0.0

    for path in sorted(paths, key=age)[number:]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class Key(NamedTuple):
    """What the machine code of a function depends on: for whom it was compiled, and from what."""

    signature: Any
    target: Any
    code: Any
    sources: str


def name_of(base: str, key: Key) -> str:
    """Name of the file of a kernel: hashes of the two halves of its key."""
    return f"{base}.{_hash(key[:2])}.{_hash(key[2:])}.kernel"


def _hash(part: Any) -> str:
    return hashlib.blake2b(repr(part).encode(), digest_size=16).hexdigest()


def packed(name: str, data: Any) -> bytes:
    """Contents of the file of that name: a checksum of name and data, and the data."""
    content = dumps(data)
    return _checksum(name, content) + content


def unpacked(name: str, file: bytes) -> Any:
    """Data of the file of that name; an error if it is damaged."""
    content = file[CHECKSUM_BYTES:]
    if file[:CHECKSUM_BYTES] != _checksum(name, content):
        raise ValueError(f"{name} is damaged")
    return loaded(content)


def _checksum(name: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES, key=hashlib.sha256(name.encode()).digest()).digest()


class KernelFiles:
    """The cached kernels of one function, one file per signature.

    A file's name is a hash of what was compiled, so that processes that compile at the same time never give one name
    to two kernels. It begins with a checksum of its name and contents: machine code with a wrong bit would end the
    process. A file that does not fit its checksum is a missing file. The checksum finds damage, not malice: contents
    are pickles, and whoever can write to the folder can run code as its user.
    """

    def __init__(self, base: str, sources: Sequence[Path], destination: Path | None) -> None:
        self.base, self.sources, self.destination = base, sources, destination

    def load(self, key: Key) -> Any:
        """Data that was saved under `key`, from the first folder that has it undamaged; None if there is none."""
        name = name_of(self.base, key)
        for folder in self.sources:
            try:
                with open(folder / name, "rb") as file:
                    return unpacked(name, file.read())
            except Exception:  # whatever is there cannot be used, and is compiled again
                continue
        return None

    def save(self, key: Key, data: Any) -> None:
        """Save `data` for later processes; if the disk is full or read-only, they compile the kernel again."""
        if self.destination is None:
            return
        name = name_of(self.base, key)
        content = packed(name, data)
        with contextlib.suppress(OSError, LinealError):
            self.destination.mkdir(parents=True, exist_ok=True)  # somebody may have emptied the cache
            path = self.destination / name
            path.unlink(missing_ok=True)  # it was of no use, and may be read-only
            with whole_file(path, durable=False) as file:
                file.write(content)
            _keep_newest(self.destination.glob(f"{self.base}.{_hash(key[:2])}.*"), KEPT_VERSIONS)
