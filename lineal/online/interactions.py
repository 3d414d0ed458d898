"""Interactions such as "user*ad, user*ad*page": the namespaces that are multiplied, as tables for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.errors import DataError, OptionError

#: At most this many namespaces: the table of triples has the cube of their number. 0 is for all others.
MAX_NAMES = 100


def parse(given: Any) -> list[tuple[str, ...]]:
    """The products in a string ("a*b,a*c"), in a list of such strings, or in a list of tuples of names."""
    if not isinstance(given, str | list | tuple) or not given:
        raise OptionError(f"interactions={given!r} is neither a string such as 'a*b' nor a list of such strings")
    parts = given.split(",") if isinstance(given, str) else list(given)
    if not all(isinstance(part, str) or all(isinstance(name, str) for name in part) for part in parts):
        raise OptionError(f"interactions={given!r}: the names of namespaces must be strings")
    found = [tuple(part.split("*")) if isinstance(part, str) else tuple(part) for part in parts]
    products = [tuple(name.strip() for name in product) for product in found]
    for product in products:
        if not 2 <= len(product) <= 3 or not all(product):
            raise OptionError(
                f"interactions: {'*'.join(product)!r} is not a product of two or three namespaces such as a*b"
            )
    return products


def names_of(products: list[tuple[str, ...]]) -> list[str]:
    """The namespaces in order of appearance; the kind of a feature is the place of its namespace, counted from 1."""
    names = list(dict.fromkeys(name for product in products for name in product))
    if len(names) > MAX_NAMES:
        raise OptionError(f"interactions name {len(names)} namespaces, but at most {MAX_NAMES} are possible")
    return names


def tables(products: list[tuple[str, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric arrays of 0 and 1: which two and which three kinds are multiplied."""
    names = names_of(products)
    size = len(names) + 1
    pairs: np.ndarray = np.zeros((size, size), np.uint8)
    triples: np.ndarray = np.zeros((size, size, size), np.uint8)
    for product in products:
        kinds = [names.index(name) + 1 for name in product]
        if len(kinds) == 2:
            pairs[kinds[0], kinds[1]] = pairs[kinds[1], kinds[0]] = 1
        else:
            for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
                triples[kinds[i], kinds[j], kinds[k]] = 1
    return pairs, triples


def kinds_of_columns(namespaces: dict[str, Any], names: list[str], width: int) -> np.ndarray:
    """The kind of every column of X. `namespaces` maps names to columns, as numbers or slices."""
    missing = [name for name in names if name not in namespaces]
    if missing:
        known = ", ".join(map(repr, namespaces)) or "none"
        raise OptionError(f"interactions name the namespace {missing[0]!r}, but namespaces has {known}")
    kinds: np.ndarray = np.zeros(width, np.uint8)
    for number, name in enumerate(names, 1):
        columns = namespaces[name]
        try:
            if (kinds[columns] != 0).any():
                raise OptionError(f"namespaces: {name!r} shares columns with another namespace")
            kinds[columns] = number
        except IndexError:
            raise DataError(
                f"namespaces: {name!r} is {columns!r}: expected a slice, or column numbers below {width}"
            ) from None
    return kinds
