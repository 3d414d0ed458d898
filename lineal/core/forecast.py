"""Which kernels a fit will need, as far as its first ones tell: fits that were recorded, kernel by kernel.

`common_kernels.json` has the kernels that Python calls, with the types of their arguments and the seconds that it took
to compile them, and for each recorded fit their numbers in order of need. ``python wheels/record.py`` writes it.
Nothing depends on it but how far a message can see ahead, and what a second process compiles (`lineal.core.ahead`).
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from numba.core import types

PATH = Path(__file__).resolve().parent / "common_kernels.json"

#: Numba's types that have no parts, by their names.
PLAIN = {
    str(one): one
    for one in (
        types.boolean, types.none, types.float32, types.float64, types.int8, types.int16, types.int32, types.int64,
        types.uint8, types.uint16, types.uint32, types.uint64,
    )
}  # fmt: skip


#: A kernel that Python calls: its module and name, and the types of its arguments.
Needed = tuple[str, str, tuple[Any, ...]]


def spelled(one: Any) -> Any:
    """A Numba type of an argument, in plain values; a ValueError if it is of a kind that kernels seldom take."""
    if PLAIN.get(str(one)) == one:
        return str(one)
    if type(one) is types.Array:
        return ["array", spelled(one.dtype), one.ndim, one.layout, one.mutable, one.aligned]
    if isinstance(one, types.NamedTuple | types.NamedUniTuple):
        cls = one.instance_class
        return [f"{cls.__module__}:{cls.__qualname__}", *map(spelled, one.types)]
    if type(one) in (types.Tuple, types.UniTuple):
        return ["tuple", *map(spelled, one.types)]
    raise ValueError(f"no spelling of {one}")


def type_of(spelling: Any) -> Any:
    """The Numba type with this spelling."""
    if isinstance(spelling, str):
        return PLAIN[spelling]
    kind, *parts = spelling
    if kind == "array":
        dtype, ndim, layout, mutable, aligned = parts
        return types.Array(type_of(dtype), ndim, layout, readonly=not mutable, aligned=aligned)
    members = tuple(map(type_of, parts))
    if kind == "tuple":
        return types.BaseTuple.from_types(members)
    module, _, name = kind.partition(":")
    return types.BaseTuple.from_types(members, found(module, name))


def found(module: str, name: str) -> Any:
    """The class or function of that name in a module."""
    thing: Any = importlib.import_module(module)
    for part in name.split("."):
        thing = vars(thing)[part]
    return thing


class Kernel(NamedTuple):
    """A kernel that Python calls: its module and name, the spelled types of its arguments, seconds to compile it."""

    module: str
    name: str
    arguments: list[Any]
    seconds: float = 0.0

    def compile(self) -> None:
        """Compile it, or load it if it is there."""
        found(self.module, self.name).compile(tuple(map(type_of, self.arguments)))


class Forecast(NamedTuple):
    """Where a fit is: number of the kernel that it needs now, about how many there are, and the likely ones to come.

    The likeliest are the first of them, and among equals those that are needed last. Compiling them takes some seconds.
    """

    position: int
    total: int
    coming: list[int]
    seconds: float


class Records(NamedTuple):
    """All kernels, the fits as their numbers in order of need, and the number of each kernel by its spelling."""

    kernels: list[Kernel]
    fits: list[tuple[int, ...]]
    numbers: dict[str, int]

    def number_of(self, module: str, name: str, arguments: tuple[Any, ...]) -> int | None:
        """Number of a kernel by the Numba types of its arguments; None if it is in no record."""
        try:
            return self.numbers.get(_key(module, name, [spelled(one) for one in arguments]))
        except ValueError:
            return None

    def forecast(self, before: Sequence[int], now: int) -> Forecast | None:
        """What is likely to follow, for a process that has needed some kernels, and needs another one now.

        Of the fits with this kernel, those count that agree best with what was needed before: they have most of it, and
        lack least of what they need before this kernel themselves.
        """
        known = {*before, now}
        scores = {}
        for fit in self.fits:
            if now in fit:
                earlier = fit[: fit.index(now)]
                scores[fit] = len(known.intersection(fit)) - len(set(earlier) - known)
        if not scores:
            return None
        best = [fit for fit, score in scores.items() if score == max(scores.values())]
        fit = sorted(best, key=len)[(len(best) - 1) // 2]
        counts = Counter(number for one in best for number in one if number not in known)
        last = {number: position for one in best for position, number in enumerate(one)}
        likely = (number for number in counts if 2 * counts[number] >= len(best))
        coming = sorted(likely, key=lambda number: (-counts[number], -last[number]))
        seconds = sum(self.kernels[number].seconds for number in coming)
        return Forecast(len(known.intersection(fit)), len(fit), coming, seconds)


def _key(module: str, name: str, arguments: list[Any]) -> str:
    return json.dumps([module, name, arguments])


@cache
def records(path: Path = PATH) -> Records:
    """The recorded fits; none if the file is missing."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return Records([], [], {})
    types_ = found["types"]
    kernels = [
        Kernel(module, name, [types_[i] for i in arguments], seconds)
        for module, name, arguments, seconds in found["kernels"]
    ]
    numbers = {_key(*kernel[:3]): number for number, kernel in enumerate(kernels)}
    return Records(kernels, [tuple(fit) for fit in found["fits"]], numbers)


def write(fits: Iterable[Sequence[Kernel]], path: Path = PATH) -> None:
    """Write the file: each fit as its kernels in order of need."""
    spellings: dict[str, int] = {}
    kernels: dict[str, int] = {}
    lines, sequences = [], set()
    for fit in fits:
        numbers = []
        for kernel in fit:
            key = _key(*kernel[:3])
            if key not in kernels:
                kernels[key] = len(kernels)
                arguments = [spellings.setdefault(json.dumps(one), len(spellings)) for one in kernel.arguments]
                lines.append(json.dumps([kernel.module, kernel.name, arguments, round(kernel.seconds, 1)]))
            numbers.append(kernels[key])
        sequences.add(tuple(numbers))
    parts = [list(spellings), lines, [json.dumps(one) for one in sorted(sequences)]]
    types_, functions, rows = (",\n".join(one) for one in parts)
    path.write_text(f'{{"types": [\n{types_}\n],\n"kernels": [\n{functions}\n],\n"fits": [\n{rows}\n]}}\n')
