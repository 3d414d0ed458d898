"""Rows of a small problem on the workers of a Dask cluster, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lineal.design.matrix import unwrapped
from lineal.engine.dask.source import DaskSource
from lineal.engine.local import LocalEngine
from lineal.engine.source import Labelled, RawRows
from lineal.problem.targets import LabelSets, OneLabel


@dataclass(frozen=True)
class Packed:
    """Encode of rows whose labels are those of given targets, with their weights."""

    is_sets: bool

    def __call__(self, rows: RawRows) -> Labelled:
        if self.is_sets:
            return Labelled(LabelSets(*rows.y.parts), rows.weights, rows.offsets)
        return Labelled(OneLabel(rows.y), rows.weights, rows.offsets)


class Sets:
    """Label sets of some rows, which look like an array of their length."""

    def __init__(self, parts):
        self.parts = parts

    @property
    def shape(self):
        return (len(self.parts[1]) - 1,)


def pieces(local: LocalEngine, sizes: tuple[int, ...]) -> list[RawRows]:
    """The rows of a local engine in parts of the given sizes."""
    assert sum(sizes) == local.shape[0]
    stops = np.cumsum(sizes)
    X = unwrapped(local.X)
    found = []
    for start, stop in zip(stops - sizes, stops):
        targets = local.targets.rows(start, stop)
        y = Sets(tuple(targets)) if isinstance(targets, LabelSets) else targets.columns
        offsets = None if local.offsets is None else local.offsets[start:stop]
        found.append(RawRows(X[start:stop], y, local.weights[start:stop], offsets))
    return found


def itself(rows):
    return rows


def source(client, local, sizes) -> DaskSource:
    """A source of these rows; the parts are in the tasks, so that Dask can make them again."""
    futures = [client.submit(itself, rows, pure=False) for rows in pieces(local, sizes)]
    return DaskSource(client, futures)


def on_cluster(client, local, sizes):
    """A Dask engine with the rows of a local one."""
    is_sets = isinstance(local.targets, LabelSets)
    return source(client, local, sizes).engine(Packed(is_sets), local.n_columns, local.threads)
