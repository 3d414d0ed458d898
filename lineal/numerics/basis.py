"""Calibration functions, which transform predictions before they are fitted to the labels again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lineal.errors import DataError, OptionError, unknown_value

#: A function of (n, k) predictions whose values have the same shape.
Function = Callable[[np.ndarray], np.ndarray]


def _identity(P: np.ndarray) -> np.ndarray:
    return P


def _square(P: np.ndarray) -> np.ndarray:
    return P * P


def _cube(P: np.ndarray) -> np.ndarray:
    return P * P * P


#: Functions that a model file can name.
NAMED: dict[str, Function] = {"y": _identity, "y^2": _square, "y^3": _cube}

POLYNOMIAL = tuple(NAMED)


def functions(given: Any) -> tuple[Function, ...]:
    """Functions given by "polynomial" (y, y², y³), by their names, or as user-defined functions."""
    if isinstance(given, str) and given == "polynomial":
        given = POLYNOMIAL
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise OptionError(f"calibration={given!r} is neither None, 'polynomial' nor a list of functions")
    found = []
    for one in given:
        if isinstance(one, str) and one not in NAMED:
            raise unknown_value("calibration", one, NAMED)
        if not isinstance(one, str) and not callable(one):
            raise OptionError(f"calibration has {one!r}, which is neither a name ({', '.join(NAMED)}) nor a function")
        found.append(NAMED[one] if isinstance(one, str) else one)
    return tuple(found)


def name_of(function: Function) -> str | None:
    """Name of a function in model files; None for a user-defined one."""
    return next((name for name, known in NAMED.items() if known is function), None)


def expand(basis: Sequence[Function], P: np.ndarray) -> np.ndarray:
    """Matrix [g₁(P), …, g_m(P)], (n, mk), in the precision of P."""
    parts = [np.asarray(function(P)) for function in basis]
    for function, part in zip(basis, parts):
        if part.shape != P.shape or not np.isfinite(part).all():
            who = name_of(function) or getattr(function, "__name__", repr(function))
            what = f"values of shape {part.shape} for {P.shape}" if part.shape != P.shape else "NaN or infinite values"
            raise DataError(f"the calibration function {who} gives {what}")
    return np.concatenate(parts, axis=1, dtype=P.dtype)
