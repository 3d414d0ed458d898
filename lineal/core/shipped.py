"""Kernels that came with lineal, compiled when its wheel was built: one archive per level of instruction sets.

An archive is one file: a magic line, the length and the checksum of an index, the index as JSON, and the kernels,
compressed one by one. The index says where each kernel is, and for which versions of Python, Numba and llvmlite all of
them were compiled. An archive for others is not used, and neither is a damaged one: kernels are then compiled as in a
source checkout, and the first compilation says why. A kernel whose sources have changed since has another name.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba

from lineal.core import kernel_files, levels
from lineal.core.numba_internals import settings
from lineal.system.files import whole_file

#: Where archives are in an installed wheel.
FOLDER = Path(__file__).resolve().parent / "shipped_kernels"

#: Set to 0 to compile all kernels for exactly this processor.
SWITCH = "LINEAL_SHIPPED_KERNELS"

MAGIC = b"lineal kernels 1\n"
CHECKSUM_BYTES = 16

#: Bytes of a number before the index.
LENGTH_BYTES = 8


class Archive(NamedTuple):
    """An open archive: its level, where each kernel is in the mapped file, and the file."""

    level: str
    places: dict[str, tuple[int, int]]
    file: mmap.mmap

    def load(self, name: str) -> Any:
        """Data of a kernel; None if the archive does not have it, or has it damaged."""
        place = self.places.get(name)
        if place is None:
            return None
        start, length = place
        try:
            return kernel_files.unpacked(name, zlib.decompress(self.file[start : start + length]))
        except Exception:  # whatever is there cannot be used, and is compiled again
            return None


class Found(NamedTuple):
    """What there is for this process: an archive, or the reason why an archive that is there cannot be used."""

    archive: Archive | None
    why_not: str | None = None


def versions() -> dict[str, str]:
    """Versions that compiled code depends on, by the names of the packages."""
    return {
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }


def path_of(level: str, folder: Path = FOLDER) -> Path:
    """Where the archive of a level is."""
    return folder / f"{level}.kernels"


def write(path: Path, kernels: Mapping[str, bytes]) -> None:
    """Write an archive of files of kernels, by name, for the sources and versions of this process."""
    places: dict[str, tuple[int, int]] = {}
    blobs, start = [], 0
    for name in sorted(kernels):
        blob = zlib.compress(kernels[name], 9)
        places[name] = (start, len(blob))
        blobs.append(blob)
        start += len(blob)
    index = json.dumps({"versions": versions(), "places": places}).encode()
    with whole_file(path) as file:
        file.write(MAGIC + len(index).to_bytes(LENGTH_BYTES, "little") + _checksum(index) + index)
        for blob in blobs:
            file.write(blob)


@cache
def find() -> Found:
    """The archive of the best level that this processor has."""
    other_target = settings.CPU_NAME is not None or settings.CPU_FEATURES is not None
    if os.environ.get(SWITCH) == "0" or other_target or settings.BOUNDSCHECK or not FOLDER.is_dir():
        return Found(None)
    return find_in(FOLDER, levels.of_this_machine())


def find_in(folder: Path, names: tuple[str, ...]) -> Found:
    """The archive of the first of these levels that the folder has."""
    paths = {name: path_of(name, folder) for name in names}
    present = [name for name, path in paths.items() if path.exists()]
    if not present:
        needed = ", ".join(sorted(path.stem for path in folder.glob("*.kernels")))
        return Found(None, needed and f"this processor has none of the instruction sets {needed}")
    why_not = None
    for name in present:
        found = _opened(name, paths[name])
        if found.archive is not None:
            return found
        why_not = why_not or found.why_not
    return Found(None, why_not)


def _opened(level: str, path: Path) -> Found:
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        start = len(MAGIC) + LENGTH_BYTES + CHECKSUM_BYTES
        length = int.from_bytes(mapped[len(MAGIC) : len(MAGIC) + LENGTH_BYTES], "little")
        index = mapped[start : start + length]
        if mapped[: len(MAGIC)] != MAGIC or _checksum(index) != mapped[start - CHECKSUM_BYTES : start]:
            raise ValueError("wrong checksum")
        about = json.loads(index)
    except (OSError, ValueError):
        return Found(None, f"{path} is damaged; installing lineal again mends it")
    if (reason := _difference(about)) is not None:
        return Found(None, reason)
    first = start + length
    places = {name: (first + offset, size) for name, (offset, size) in about["places"].items()}
    return Found(Archive(level, places, mapped))


def _difference(about: dict[str, Any]) -> str | None:
    """Why kernels do not fit this process; None if they do."""
    for package, here in versions().items():
        there = about["versions"].get(package)
        if there != here:
            advice = f"; pip install {package}=={there} avoids it" if package == "numba" else ""
            return f"they were made for {package} {there}, and {here} is installed{advice}"
    return None


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()
