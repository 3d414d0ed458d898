"""Conversion of generators to JSON values and arrays for model files, and back. Only code of known generators runs.

An array in a state becomes {"$tensor": name} and an entry of a table of arrays. Whatever a file holds, `from_parts`
gives a generator that can make features, or a ValueError that says what is wrong.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lineal.features.base import described, from_description

#: Tables in tables and lists in lists that a description may have.
DEPTH = 40

_KEY = "$tensor"


def to_parts(generator: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Convert a prepared generator to JSON values and arrays."""
    tensors: dict[str, np.ndarray] = {}
    return pack(described(generator), tensors, "generator"), tensors


def from_parts(description: Any, tensors: dict[str, np.ndarray]) -> Any:
    """Inverse of `to_parts`."""
    left = dict(tensors)
    try:
        generator = from_description(unpack(description, left))
    except (KeyError, TypeError, OverflowError, AttributeError, IndexError) as error:
        raise ValueError(f"the generator of features is damaged: {type(error).__name__} {error}") from None
    if left:
        raise ValueError(f"the generator of features has no use for the arrays {sorted(left)}")
    return generator


def pack(value: Any, tensors: dict[str, np.ndarray], name: str) -> Any:
    """Move the arrays of a value to `tensors`, under names that begin with `name`; returns the rest."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        if value.dtype.kind not in "iufb" or name in tensors:
            raise ValueError(f"an array of {value.dtype} called {name!r} cannot be saved")
        tensors[name] = np.ascontiguousarray(value)
        return {_KEY: name}
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item()
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not key.startswith("$") for key in value):
            raise ValueError(f"{name!r} cannot be saved: its keys must be texts")
        return {key: pack(entry, tensors, f"{name}.{key}") for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [pack(entry, tensors, f"{name}.{place}") for place, entry in enumerate(value)]
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{name!r} cannot be saved: {type(value).__name__} {value!r} is neither a number nor a text")


def unpack(value: Any, tensors: dict[str, np.ndarray], depth: int = 0) -> Any:
    """Inverse of `pack`, which takes the arrays from `tensors`."""
    if depth > DEPTH:
        raise ValueError("the generator of features is nested too deeply")
    if isinstance(value, dict):
        if _KEY in value:
            if len(value) != 1 or not isinstance(value[_KEY], str) or value[_KEY] not in tensors:
                raise ValueError(f"the array {value[_KEY]!r} is missing, or used twice")
            return tensors.pop(value[_KEY])
        return {key: unpack(entry, tensors, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [unpack(entry, tensors, depth + 1) for entry in value]
    return value
