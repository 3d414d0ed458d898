"""Reads and writes safetensors files without memory mapping: if another process truncates one, that is an error.

A file is the length of its header (8 bytes, little-endian), the header (JSON: name, type, shape and place of every
tensor, and the metadata) and the bytes of the tensors. Nothing in the header is trusted: no array is created before
it is known that the file is long enough.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import IO, Any

import numpy as np

#: Most bytes of a header, as in the reference implementation.
LONGEST_HEADER = 100_000_000

_METADATA = "__metadata__"

#: NumPy's types by the names in a header.
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read_tensors(file: IO[bytes]) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and tensors of an open file; a ValueError says what is wrong with it."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(_exactly(file, 8), "little")
    if length > min(LONGEST_HEADER, size - 8):
        raise ValueError("the header is longer than the file, or than headers can be")
    try:
        header = json.loads(_exactly(file, length))
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("the header is not a table")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the metadata are not texts")
    places = sorted((_place(name, entry) for name, entry in header.items()), key=lambda place: place[3])
    at = 0
    for name, dtype, shape, begin, end in places:
        if begin != at or end - begin != dtype.itemsize * math.prod(shape):
            raise ValueError(f"the tensor {name!r} is not where it should be")
        at = end
    if at != size - 8 - length:
        raise ValueError(f"the tensors should take {at} bytes, the file has {size - 8 - length}")
    tensors = {}
    for name, dtype, shape, _, _ in places:
        found = np.empty(shape, dtype)
        if found.nbytes and file.readinto(found.reshape(-1).view(np.uint8).data) != found.nbytes:  # type: ignore[attr-defined]
            raise ValueError("the file was cut while it was read")
        tensors[name] = found
    return metadata, tensors


def write_tensors(file: IO[bytes], metadata: dict[str, str], tensors: dict[str, np.ndarray]) -> None:
    """Write metadata and tensors to an open file, without a copy of the tensors; `read_tensors` reads them."""
    at, header, kinds = 0, {_METADATA: metadata}, {np.dtype(code).str: name for name, code in _TYPES.items()}
    for name, array in tensors.items():
        place = [at, at + array.nbytes]
        header[name] = {"dtype": kinds[array.dtype.str], "shape": list(array.shape), "data_offsets": place}  # type: ignore[dict-item]
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in tensors.values():
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def checksum(text: str, tensors: dict[str, np.ndarray]) -> str:
    """Checksum of a text and of names, types, shapes and contents of tensors."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _place(name: str, entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    """Name, type, shape, first byte and end of a tensor."""
    try:
        kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = (*shape, begin, end)
        if kind in _TYPES and all(type(number) is int and 0 <= number < 1 << 62 for number in numbers):
            return name, np.dtype(_TYPES[kind]), tuple(shape), begin, end
    except (TypeError, ValueError, LookupError):
        pass
    raise ValueError(f"the tensor {name!r} has no usable type, shape and place")


def _exactly(file: IO[bytes], count: int) -> bytes:
    found = file.read(count)
    if len(found) != count:
        raise ValueError("the file ends too early")
    return found
