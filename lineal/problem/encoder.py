"""From labels and sample weights to targets and row weights, for rows that are held in parts.

    survey = survey_of(source)             # every part is looked at once, and parts that disagree are named
    encoder = survey.encoder(columns, class_weight)
    engine = source.engine(encoder, columns.n_columns, threads)

The encoder is small and can be pickled: it turns the labels of any part into targets, wherever the part is.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.cached import cached_property
from lineal.core.inputs import checked_numbers
from lineal.data.dataset import check_finite
from lineal.engine.base import Block, Engine
from lineal.engine.source import Labelled, RawRows, Source
from lineal.errors import DataError, OptionError
from lineal.problem.labels import LabelColumns, LabelPart, LabelSummary
from lineal.problem.row_weights import check_class_sums, checked_total, checked_weights, class_factors
from lineal.problem.targets import Encoded, OneLabel, class_numbers, targets_of


@dataclass(frozen=True)
class WeightSums:
    """Sums of sample weights, divided by the largest weight so that they cannot overflow.

    Attributes
    ----------
    largest : largest weight of the rows; zero if there are no rows.
    sums : sum of the weights per class, or one sum for label sets.
    """

    largest: float
    sums: np.ndarray

    def plus(self, other: WeightSums) -> WeightSums:
        """Sums of two sets of rows, both for the same classes."""
        largest = max(self.largest, other.largest)
        if largest == 0.0:
            return self
        return WeightSums(largest, self.sums * (self.largest / largest) + other.sums * (other.largest / largest))


@dataclass(frozen=True)
class PartSummary:
    """What others need to know of one part of the rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_dense: bool
    stored: int
    labels: LabelSummary
    weights: WeightSums
    has_weights: bool
    offset_columns: int | None

    @property
    def kind(self) -> str:
        """Layout and data type of X, for messages."""
        return f"{'dense' if self.is_dense else 'sparse'} {self.dtype}"


@dataclass(frozen=True)
class Summarise:
    """Step of `Source.survey`: check the rows of a part and summarise them.

    `is_finite` tells that the values of X are known to be finite.
    """

    is_finite: bool = False

    def __call__(self, rows: RawRows) -> PartSummary:
        X, shape = rows.X, rows.X.shape
        if not self.is_finite:
            check_finite(X, first_row=rows.first)
        part = LabelPart.of(_labels_of(rows), rows.first)
        if part.summary.n_rows != shape[0]:
            raise DataError(f"y has {part.summary.n_rows} labels, X has {shape[0]} rows")
        weights = checked_weights(rows.weights, shape[0], rows.first)
        largest = float(weights.max(initial=0.0))
        scaled = weights / (largest or 1.0)
        if part.numbers is None:
            sums = np.array([scaled.sum()])
        else:
            sums = np.bincount(part.numbers, scaled, minlength=len(part.summary.classes))
        is_dense = not sparse.issparse(X)
        return PartSummary(
            shape, X.dtype, is_dense, int(X.size if is_dense else X.nnz), part.summary, WeightSums(largest, sums),
            rows.weights is not None,
            None if rows.offsets is None else _base_scores(rows.offsets, X.dtype, rows.first).shape[1],
        )  # fmt: skip


def _labels_of(rows: RawRows) -> Any:
    if rows.y is None:
        raise DataError("the rows have no labels")
    return rows.y


def _base_scores(offsets: Any, dtype: Any, first_row: int) -> np.ndarray:
    """Offsets as a matrix in the precision of X, or an error if they are not finite numbers."""
    try:
        with np.errstate(over="ignore"):  # too large for the precision of X: refused below
            found = np.asarray(checked_numbers(offsets, "offsets"), dtype)
    except (TypeError, ValueError) as error:
        raise error if isinstance(error, DataError) else DataError(f"offsets must be numbers: {error}") from None
    found = found[:, None] if found.ndim == 1 else found
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise DataError(
            f"offsets of row {first_row + row} have {found[row, column]} in column {column}: they must be finite"
        )
    return found


@dataclass(frozen=True)
class Survey:
    """What is known of all rows of a source."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_dense: bool
    stored: int
    labels: LabelSummary
    weights: WeightSums
    offset_columns: int | None

    def encoder(self, columns: LabelColumns, class_weight: Any) -> RowEncoder:
        """The encoder of labels with these columns; refuses class weights that leave a class without weight."""
        sums = self.weights.sums
        if columns.is_multilabel:
            if class_weight is not None:
                raise OptionError("class_weight has no meaning for label sets: use sample_weight")
            factors = None
        else:
            factors = class_factors(class_weight, columns.classes, sums)
            sums = sums * factors
            check_class_sums(columns.classes, sums)
        total = checked_total(float(sums.sum()))
        if self.offset_columns is not None and self.offset_columns != columns.n_columns:
            raise DataError(f"offsets have {self.offset_columns} columns, expected {columns.n_columns}: one per score")
        return RowEncoder(columns, factors, self.weights.largest, total, self.dtype)


_surveys: weakref.WeakKeyDictionary[Any, Survey] = weakref.WeakKeyDictionary()


def survey_of(source: Source) -> Survey:
    """Look at every part of a source once; raises an error that names the first part that differs from the others."""
    if source not in _surveys:
        _surveys[source] = _merged(source.survey(Summarise(source.is_finite)))
    return _surveys[source]


def _merged(parts: Iterable[tuple[str, PartSummary]]) -> Survey:
    filled = [(name, part) for name, part in parts if part.shape[0]]
    if not filled:
        raise DataError("there are no rows to train on: all partitions are empty")
    first_name, first = filled[0]
    if not first.shape[1]:
        raise DataError(f"{first_name} has rows without any columns: at least one is needed")
    for name, part in filled[1:]:
        for what, value, wanted in (
            ("columns", part.shape[1], first.shape[1]),
            ("X of kind", part.kind, first.kind),
            ("sample weights", part.has_weights, first.has_weights),
            ("offset columns", part.offset_columns, first.offset_columns),
        ):
            if value != wanted:
                raise DataError(f"{name} has {what}: {value}, but {first_name} has {wanted}; all parts must agree")
    labels = functools.reduce(_joined(filled), [part.labels for _, part in filled])
    sums = functools.reduce(WeightSums.plus, [_among(part, labels) for _, part in filled])
    rows = sum(part.shape[0] for _, part in filled)
    return Survey(
        (rows, first.shape[1]), first.dtype, first.is_dense, sum(part.stored for _, part in filled), labels, sums,
        first.offset_columns,
    )  # fmt: skip


def _joined(parts: list[tuple[str, PartSummary]]) -> Any:
    """Addition of label summaries whose error names the part."""
    names = iter([name for name, _ in parts[1:]])

    def add(total: LabelSummary, other: LabelSummary) -> LabelSummary:
        name = next(names)
        try:
            return total + other
        except DataError as error:
            raise DataError(f"{name} does not agree with the parts before it: {error}") from None

    return add


def _among(part: PartSummary, labels: LabelSummary) -> WeightSums:
    """The weights of a part per class of all rows."""
    if labels.n_sets is not None:
        return part.weights
    own = part.labels.classes
    sums = np.zeros(len(labels.classes))
    sums[np.searchsorted(labels.classes, own.astype(labels.classes.dtype, copy=False))] = part.weights.sums
    return WeightSums(part.weights.largest, sums)


@dataclass(frozen=True)
class RowEncoder:
    """Turns labels, sample weights and base scores of some rows into what solvers need (see `Encode`)."""

    columns: LabelColumns
    factors: np.ndarray | None
    largest: float
    total: float
    dtype: np.dtype[Any]

    def __call__(self, rows: RawRows) -> Labelled:
        part = LabelPart.of(rows.y, rows.first)
        targets = targets_of(part, self.columns)
        weights = checked_weights(rows.weights, part.summary.n_rows, rows.first) / self.largest
        if self.factors is not None and isinstance(targets, OneLabel):
            weights *= self.factors[class_numbers(targets, self.columns.n_columns)]
        offsets = None
        if rows.offsets is not None:
            offsets = np.ascontiguousarray(_base_scores(rows.offsets, self.dtype, rows.first))
        return Labelled(targets, weights / self.total, offsets)


class EncodedElsewhere(Encoded):
    """Labels of rows that an engine holds. They are gathered only if something needs those of all rows at once."""

    def __init__(self, engine: Engine, columns: LabelColumns) -> None:
        for name, value in (("engine", engine), *columns._asdict().items()):
            object.__setattr__(self, name, value)

    engine: Engine

    @cached_property
    def targets(self) -> Any:
        """Targets of all rows: 4 bytes per row, and per label of a label set."""
        first, *others = self.engine.gather(_targets)
        return first.joined(others)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.engine.shape[0]


def sample_weights_of(source: Source) -> np.ndarray | None:
    """Sample weights of all rows of a source, 8 bytes per row; None if it has none."""
    parts = [weights for _, weights in source.survey(_sample_weights)]
    given = [weights for weights in parts if weights is not None]
    return np.concatenate(given) if given else None


def gathered_weights(engine: Engine) -> np.ndarray:
    """Weights of all rows of an engine, 8 bytes per row."""
    return np.concatenate(engine.gather(_weights))


def _sample_weights(rows: RawRows) -> np.ndarray | None:
    return None if rows.weights is None else checked_weights(rows.weights, len(rows.weights), rows.first)


def _targets(block: Block) -> Any:
    return block.targets


def _weights(block: Block) -> np.ndarray:
    return block.weights
