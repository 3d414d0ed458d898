"""Compiled kernels on disk: their names, their checksums, and the folders that they are in.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba

from lineal.core.numba_internals import dumps, settings
from lineal.errors import LinealError
from lineal.system.files import whole_file

PACKAGE = Path(__file__).resolve().parent.parent

#: Folders whose code never runs inside a kernel: editing them keeps the compiled kernels.
NOT_KERNELS = ("cli", "report")

#: Folders of older sources that are kept, so that switching between two versions does not compile each time.
KEPT_CACHES = 4

#: Bytes of a kernel file before its contents.
CHECKSUM_BYTES = 16


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


@functools.cache
def own_hash() -> str:
    """`source_hash` of this installation."""
    return source_hash()


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
def cache_folders() -> tuple[tuple[Path, ...], Path | None]:
    """Folders that kernels are loaded from, in that order, and the one that new kernels go to.

    These are the candidates up to the first one that can be written to. Those before it are read-only, as in a
    container image that was warmed up when it was built; they count if they exist.
    """
    name = f"kernels-{own_hash()}"
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
    return cache_folders()[1]


def _drop_old_caches(parent: Path) -> None:
    def age(folder: Path) -> float:
        try:
            return -folder.stat().st_mtime
        except OSError:
            return 0.0

    for folder in sorted(parent.glob("kernels-*"), key=age)[KEPT_CACHES:]:
        shutil.rmtree(folder, ignore_errors=True)


def name_of(base: str, key: Any) -> str:
    """Name of the file of a kernel: a hash of what was compiled."""
    return f"{base}.{hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()}.kernel"


def packed(name: str, data: Any) -> bytes:
    """Contents of the file of that name: a checksum of name and data, and the data."""
    content = dumps(data)
    return _checksum(name, content) + content


def unpacked(name: str, file: bytes) -> Any:
    """Data of the file of that name; an error if it is damaged."""
    content = file[CHECKSUM_BYTES:]
    if file[:CHECKSUM_BYTES] != _checksum(name, content):
        raise ValueError(f"{name} is damaged")
    return pickle.loads(content)


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

    def load(self, key: Any) -> Any:
        """Data that was saved under `key`, from the first folder that has it undamaged; None if there is none."""
        name = name_of(self.base, key)
        for folder in self.sources:
            try:
                with open(folder / name, "rb") as file:
                    return unpacked(name, file.read())
            except Exception:  # whatever is there cannot be used, and is compiled again
                continue
        return None

    def save(self, key: Any, data: Any) -> None:
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
