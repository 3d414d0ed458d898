"""Dask collections as the rows of learners: every learner has consecutive partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal.engine.dask.cluster import client_in_use
from lineal.engine.dask.collections import source_of
from lineal.engine.dask.source import DaskSource, check_agreement
from lineal.engine.source import RawRows
from lineal.errors import DataError, OptionError
from lineal.online.learner_rows import PartitionRows, partitions_of
from lineal.online.on_dask import OnDask
from lineal.online.options import OnlineOptions
from lineal.online.places import told_of
from lineal.online.trainer import CLASSES, NUMBERS, SETS
from lineal.problem.encoder import survey_of


@dataclass(frozen=True)
class Partitions:
    """A Dask collection, of which it is known what its labels are.

    kind, classes, width : as of `lineal.online.trainer.Trainer`.
    """

    source: DaskSource
    options: OnlineOptions
    kind: str
    classes: Any
    width: int

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns, if they have any."""
        return self.source.feature_names

    @staticmethod
    def of(X: Any, y: Any, sample_weight: Any, options: OnlineOptions, are_numbers: bool) -> Partitions:
        """The partitions of a collection, each looked at once."""
        if options.engine == "local":
            raise OptionError("engine='local' cannot read Dask collections: leave it out")
        source = source_of(client_in_use(), X, y, sample_weight)
        if are_numbers:
            source.survey(_check_numbers)
            kind, classes = NUMBERS, None
        else:
            labels = survey_of(source).labels
            kind, classes = (SETS, np.arange(labels.n_sets)) if labels.n_sets else (CLASSES, labels.classes)
        facts = source.facts()
        check_agreement(source.names, facts)
        return Partitions(source, options, kind, classes, facts[0].n_features)

    def place(self, column_kinds: Any) -> OnDask:
        """The place of the learners."""
        count = int(self.options.learners)
        runs = partitions_of([one.n_rows for one in self.source.facts()], count)
        parts = [[self.source.parts[number] for number in run] for run in runs]
        rows = [PartitionRows(self.kind, column_kinds) for _ in range(count)]
        return OnDask(self.source.client, rows, parts, told_of(self.options))


def _check_numbers(rows: RawRows) -> None:
    """Step of a survey: refuse labels that are not one number per row."""
    if rows.y is None:
        raise DataError("the rows have no labels")
    shape, kind = np.shape(rows.y), np.asarray(rows.y).dtype.kind
    if shape != (rows.X.shape[0],) or kind not in "biuf":
        raise DataError(f"y has shape {shape} and type {np.asarray(rows.y).dtype}, expected one number per row")
