"""How pieces of row state came about, so that a worker that has lost some gets them back with the same bits.

`RowState` says how a piece is rebuilt from parameters. Scores that were advanced from iteration to iteration and
scores that are computed from the present weights differ by rounding errors, though, and so would a fit that lost a
worker. Therefore the client remembers, for every state that is kept on workers, where it started and the steps that
changed it since. A worker that lost a piece repeats these steps on its block. If that memory grows too large, all
workers rebuild the state from its parameters, whether they have lost it or not.

Engines whose features are changed in different ways can share a state. A step is repeated on the features that it had.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lineal.design import Design
from lineal.engine.dask.parcels import nbytes

#: Bytes of arguments of steps that are remembered per state.
KEPT_BYTES = 512 << 20

#: Number of steps that are remembered per state.
KEPT_STEPS = 2000

#: Number of the row weights that partitions come with.
GIVEN_BY_PARTITIONS = 0

_versions = itertools.count(1)


def new_version() -> int:
    """Number of a version, which no other version of any state has."""
    return next(_versions)


class Origin:
    """A version that `rebuild` computes from arguments; without arguments its pieces are empty."""

    kept_bytes: int = 0
    kept_steps: int = 0

    def __init__(self, rebuild: Any, arguments: tuple[Any, ...], change: Change | None = None) -> None:
        self.version: int = new_version()
        self.rebuild, self.arguments, self.change = rebuild, arguments, change
        self._is_frozen = False

    def freeze(self) -> None:
        """Copy the arguments: solvers may change arrays in place once a state no longer depends on them."""
        if not self._is_frozen:
            self.arguments, self._is_frozen = copy.deepcopy(self.arguments), True


class Change(NamedTuple):
    """A function that changes the features of all blocks, and its number."""

    number: int
    function: Callable[[Design], Design]


class Variant:
    """Weights of the rows: those of the partitions, or (n,) given ones. Engines that differ in them share row state."""

    def __init__(self, weights: np.ndarray | None = None) -> None:
        self.number = GIVEN_BY_PARTITIONS if weights is None else new_version()
        self.weights = weights


class Event(NamedTuple):
    """A step that changed pieces, or added entries to some: its arguments, the states before it, and its features."""

    step: Any
    arguments: tuple[Any, ...]
    befores: tuple[Node, ...]
    changes: tuple[bool, ...]
    variant: Variant
    change: Change | None

    @staticmethod
    def of(
        step: Any, arguments: tuple[Any, ...], befores: Sequence[Node], changes: tuple[bool, ...], variant: Variant,
        change: Change | None,
    ) -> Event:  # fmt: skip
        """The event of a step that has just run; its arguments are copied."""
        for before in befores:
            if isinstance(before, Origin):
                before.freeze()
        return Event(step, copy.deepcopy(arguments), tuple(befores), changes, variant, change)


class After:
    """The version of one of the states of an event after it."""

    def __init__(self, event: Event, position: int, version: int | None = None) -> None:
        before = event.befores[position]
        self.event, self.position = event, position
        self.version: int = before.version if version is None else version
        self.kept_steps: int = before.kept_steps + 1
        self.kept_bytes: int = before.kept_bytes + nbytes(event.arguments)

    @property
    def is_too_long(self) -> bool:
        """Whether too much would have to be remembered."""
        return self.kept_steps > KEPT_STEPS or self.kept_bytes > KEPT_BYTES


Node = Origin | After

#: Place of a piece in a script: number of an entry, and which of the states of its step.
Place = tuple[int, int]


class Start(NamedTuple):
    """Entry of a script: rebuild a piece from arguments."""

    rebuild: Any
    arguments: tuple[Any, ...]
    change: Change | None


class Again(NamedTuple):
    """Entry of a script: repeat a step on pieces that earlier entries have made."""

    step: Any
    arguments: tuple[Any, ...]
    befores: tuple[Place, ...]
    changes: tuple[bool, ...]
    variant: int
    change: Change | None


class Script(NamedTuple):
    """What a worker does to get pieces back: entries in order, and where the pieces of each state are.

    `wanted` has one place per state of a step; None where the worker must have the pieces.
    """

    entries: tuple[Start | Again, ...]
    wanted: tuple[Place | None, ...]

    @property
    def variants(self) -> set[int]:
        """Numbers of the row weights that the steps were run with."""
        return {entry.variant for entry in self.entries if isinstance(entry, Again)}


class Writer:
    """Writes a script: what the wanted versions need, each thing after what it is made of."""

    def __init__(self) -> None:
        self.entries: list[Start | Again] = []
        self.variants: dict[int, Variant] = {}
        self._numbers: dict[int, int] = {}  # of the entries of origins and events, by identity

    def script(self, wanted: Sequence[Node | None]) -> Script:
        """The script that makes the pieces of some versions."""
        places = tuple(None if node is None else self._write(node) for node in wanted)
        return Script(tuple(self.entries), places)

    def _write(self, wanted: Node) -> Place:
        waiting: list[Node] = [wanted]
        while waiting:  # not recursive: a state may have been changed thousands of times
            missing = self._missing(waiting[-1])
            if not missing:
                self._add(waiting.pop())
            waiting.extend(missing)
        return self._place(wanted)

    def _missing(self, node: Node) -> list[Node]:
        befores = () if isinstance(node, Origin) or id(node.event) in self._numbers else node.event.befores
        return [before for before in befores if id(_source(before)) not in self._numbers]

    def _add(self, node: Node) -> None:
        source = _source(node)
        if id(source) in self._numbers:
            return
        self._numbers[id(source)] = len(self.entries)
        if isinstance(source, Origin):
            self.entries.append(Start(source.rebuild, source.arguments, source.change))
            return
        self.variants[source.variant.number] = source.variant
        befores = tuple(map(self._place, source.befores))
        variant, change = source.variant.number, source.change
        self.entries.append(Again(source.step, source.arguments, befores, source.changes, variant, change))

    def _place(self, node: Node) -> Place:
        return self._numbers[id(_source(node))], 0 if isinstance(node, Origin) else node.position


def _source(node: Node) -> Origin | Event:
    return node if isinstance(node, Origin) else node.event
