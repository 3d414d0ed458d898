"""`Trainer`: feeds an online learner with labelled rows: numbers, classes (new ones at any time) or label sets."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lineal.core.inputs import EXACT
from lineal.data.dataset import csr_of_parts
from lineal.errors import DataError, OptionError
from lineal.online.call_order import CallOrder
from lineal.online.label_order import LabelOrder, NumberOrder, warning_of
from lineal.online.learner import Learner
from lineal.online.model import OnlineModel
from lineal.online.options import OnlineOptions
from lineal.online.rows import LARGEST_VALUE, importances, label_columns, numbers_of, rows_of
from lineal.online.state import HELD_LOSS, HELD_WEIGHT, LOSS, WEIGHT
from lineal.problem.loop_state import LoopState
from lineal.problem.solution import NO_CERTIFICATE

#: Options that may differ from call to call of `partial_fit`.
MAY_CHANGE = (
    "rate", "initial_t", "l1", "l2", "passes", "hold_out", "patience", "shuffle", "shuffle_buffer", "random_state",
    "max_time", "learners", "engine", "n_jobs", "verbose",
)  # fmt: skip

NUMBERS, CLASSES, SETS = "numbers", "classes", "sets"


@dataclass(frozen=True)
class Block:
    """Block of labelled rows.

    X, y : (n, d), and numbers, classes or an indicator matrix.
    weights : importances (n,), or None.
    kinds, column_kinds : namespaces of the entries or of the columns, or None.
    """

    X: Any
    y: Any
    weights: Any = None
    kinds: Any = None
    column_kinds: Any = None

    def rows(self, first: int, last: int) -> Block:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[first:last]
        kinds = None if self.kinds is None else self.kinds[self.X.indptr[first] : self.X.indptr[last]]
        return Block(self.X[first:last], self.y[first:last], weights, kinds, self.column_kinds)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def taken(self, rows: np.ndarray) -> Block:
        """The rows with these numbers, in their order."""
        weights, kinds = None if self.weights is None else self.weights[rows], None
        if self.kinds is not None:
            kinds = csr_of_parts(self.kinds, self.X.indices, self.X.indptr, self.X.shape)[rows].data
        return Block(self.X[rows], self.y[rows], weights, kinds, self.column_kinds)


class Trainer(LoopState):
    """Feeds a `Learner` with rows whose labels are all of one kind.

    Parameters
    ----------
    options : checked `OnlineOptions`.
    kind : `NUMBERS`, `CLASSES` or `SETS`.
    classes : the labels; None if they become known as rows come.
    n_examples : examples of all passes together; None if the number is not known.
    width : columns of X.

    Attributes
    ----------
    rows : number of the first row of the next block, for messages.
    order : whether the rows come in random order, as far as their labels tell; `calls` is that of the calls before.
    has_warned : whether a warning has said that they do not.
    """

    state_names = ("rows", "has_labels", "labels", "order", "learner")

    def __init__(
        self, options: OnlineOptions, kind: str, classes: Any = None, n_examples: int | None = None, width: int = 0
    ) -> None:
        self.kind, self.width, self.has_labels = kind, width, classes is not None
        self.may_grow = kind == CLASSES and classes is None
        self.classes: np.ndarray = np.empty(0) if classes is None else np.asarray(classes)
        options = options.for_numbers(kind == NUMBERS)
        k = 1 if kind == NUMBERS or (kind == CLASSES and len(self.classes) <= 2) else len(self.classes)
        self.learner = Learner(options, k, kind == SETS, n_examples, kind == NUMBERS)
        self.start_rows()

    @property
    def labels(self) -> dict[str, Any]:
        """The classes as plain values."""
        return {"labels": self.classes.tolist(), "dtype": self.classes.dtype.str}

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        if name == "labels":
            self.classes = np.array(value["labels"], value["dtype"])
        else:
            super().restore_part(name, value)

    @staticmethod
    def of(model: OnlineModel) -> Trainer:
        """Trainer that continues a model, which changes with it; new classes may appear."""
        kind = NUMBERS if model.is_number else SETS if model.is_multilabel else CLASSES
        trainer = Trainer.__new__(Trainer)
        trainer.kind, trainer.width, trainer.has_labels = kind, model.n_columns, True
        trainer.classes, trainer.learner, trainer.may_grow = model.classes, model.learner, kind == CLASSES
        trainer.start_rows()
        return trainer

    def start_rows(self, first: int = 0) -> None:
        """Go over rows from the beginning, which messages count from `first`."""
        self.rows, self.has_warned, self.calls = first, False, CallOrder()
        self.order: LabelOrder | NumberOrder = NumberOrder() if self.kind == NUMBERS else LabelOrder()

    def start_call(self) -> None:
        """Go on with the rows of another call, whose order is judged by itself as well."""
        order, calls, has_warned = self.order, self.calls, self.has_warned
        was_shuffled = self.learner.options.shuffle  # then the order was judged with the buffer
        self.start_rows()
        if not was_shuffled:
            self.calls, self.has_warned = calls, has_warned
            self.calls.add(order)

    def feed(self, block: Block) -> np.ndarray:
        """Learn from a block; returns the predictions for its rows before the updates: scores, or the best columns."""
        n, first_row = block.X.shape[0], self.rows
        rows = rows_of(block.X, first_row, block.kinds, block.column_kinds)
        rows = rows._replace(importance=importances(block.weights, n, first_row))
        self.rows += n
        if self.kind == NUMBERS:
            labels = numbers_of(block.y, n, first_row)
            self.has_labels = self.has_labels or not np.isnan(labels).all()
            assert isinstance(self.order, NumberOrder)
            self.order.add(labels[~np.isnan(labels)])
            return self.learner.learn(rows._replace(labels=labels))
        if self.kind == SETS:
            if block.y.shape != (n, len(self.classes)):
                raise DataError(f"y has shape {block.y.shape}, expected {(n, len(self.classes))}: one column per label")
            sets, starts = label_columns(block.y, self.classes)
            self._label_order.add_sets(sets, starts)
            return self.learner.learn(rows, sets, starts)
        y = np.asarray(block.y)
        if y.shape != (n,):
            raise DataError(f"y has shape {y.shape}, X has {n} rows")
        if not is_missing(y).all():
            check_together(y, self.classes)
        predicted = []
        for first, last in self._with_known_classes(y):
            self._see(y[first:last])
            part = rows if (first, last) == (0, n) else _cut(rows, first, last)
            predicted.append(self._learn(part, y[first:last]))
        return predicted[0] if len(predicted) == 1 else np.concatenate([np.zeros(0), *predicted])

    def _learn(self, rows: Any, y: np.ndarray) -> np.ndarray:
        missing = is_missing(y)
        if self.learner.k == 1:
            labels = np.where(y == self.classes[-1], 1.0, -1.0) if len(self.classes) else np.full(len(y), np.nan)
            if len(self.classes):
                self._label_order.add((labels[~missing] > 0.0).astype(np.int64) * (len(self.classes) - 1))
            return self.learner.learn(rows._replace(labels=np.where(missing, np.nan, labels)))
        sets, starts = label_columns(y[~missing] if missing.any() else y, self.classes)
        self._label_order.add(sets)
        return self.learner.learn(rows, sets, np.append(0, np.cumsum(~missing)) if missing.any() else starts)

    @property
    def _label_order(self) -> LabelOrder:
        assert isinstance(self.order, LabelOrder)
        return self.order

    def _with_known_classes(self, y: np.ndarray) -> Iterable[tuple[int, int]]:
        """Ranges of rows in which a new class can appear only in the first row."""
        labels, firsts = np.unique(y[~is_missing(y)], return_index=True)
        firsts = np.flatnonzero(~is_missing(y))[firsts]
        new = ~np.isin(labels, self.classes) if len(self.classes) else np.ones(len(labels), bool)
        if new.any() and not self.may_grow:
            raise DataError(f"y has the label {labels[new].tolist()[0]!r}, which is not among the classes")
        cuts = sorted({0, len(y), *firsts[new].tolist()})
        return list(itertools.pairwise(cuts))

    def _see(self, y: np.ndarray) -> None:
        """Add the class of the first row, if it is new."""
        if not self.may_grow or not len(y) or is_missing(y[:1])[0] or y[0] in self.classes:
            return
        label = y[:1]
        if len(self.classes) == 0:
            self.classes, self.has_labels = label.copy(), True
        elif len(self.classes) == 1 and label[0] < self.classes[0]:
            self.classes = np.concatenate((label, self.classes))
            self._label_order.turn()
            self.calls.turn()
        elif len(self.classes) == 1:
            self.classes = np.concatenate((self.classes, label))
            self.learner.table.turn()
        else:
            self.classes = np.concatenate((self.classes, label))
            self.learner.grow(len(self.classes))

    def loss(self, held: bool = False) -> float:
        """Mean progressive loss of this pass, or mean loss of the examples held out."""
        sums = self.learner.sums
        loss, weight = (sums[HELD_LOSS], sums[HELD_WEIGHT]) if held else (sums[LOSS], sums[WEIGHT])
        return float(loss / weight) if weight > 0.0 else math.inf

    def go_on_with(self, options: OnlineOptions) -> None:
        """Use the options of a further call. Options that determine the meaning of the weights must not change."""
        options = options.for_numbers(self.kind == NUMBERS)
        for entry in fields(options):
            old, new = getattr(self.learner.options, entry.name), getattr(options, entry.name)
            if old != new and entry.name not in MAY_CHANGE:
                raise OptionError(f"{entry.name}={new!r}, but learning began with {old!r}: call fit to start again")
        self.learner.options, self.learner.period = options, 0

    def check_finite(self) -> None:
        """Raise an error if updates were so large that scores are no longer finite."""
        if math.isnan(self.learner.sums[LOSS]):
            rate = float(self.learner.options.rate)
            raise DataError(
                "the weights have grown beyond floating-point numbers: lower the rate "
                f"({rate:g}), for example to {rate / 10.0:g}, or leave adaptive, normalised and invariant switched on"
            )

    def warn_of_cuts(self) -> None:
        """Warn of products that were too large since the last warning, with their number."""
        cuts = self.learner.products.cuts
        if cuts[0]:
            warnings.warn(
                f"{cuts[0]} products of features were beyond ±{LARGEST_VALUE:g} and cut to that: scale the columns, so "
                "that their values are about 1",
                UserWarning,
                stacklevel=3,
            )
            cuts[0] = 0

    def warn_of_order(self, options: OnlineOptions, advice: str) -> None:
        """Warn, once, if the rows were not in random order; `options` are those of this fit, `advice` what to do."""
        share = -(-self.order.rows // int(options.learners))  # of a learner
        window = min(int(options.shuffle_buffer), share) if options.shuffle else None
        odd = (said for order in self.calls.judged(self.order) if (said := warning_of(order, self.classes, window)))
        if not self.has_warned and (said := next(odd, None)) is not None:
            warnings.warn(f"{said}. {advice}", UserWarning, stacklevel=3)
            self.has_warned = True

    def model(self, status: str = "one pass", **known: Any) -> OnlineModel:
        """The model so far; it changes as learning goes on."""
        return OnlineModel(
            self.learner, self.classes, self.width, self.kind == SETS, self.kind == NUMBERS,
            options=self.learner.options.to_json(), certificate=NO_CERTIFICATE, status=status, **known,
        )  # fmt: skip


def _cut(rows: Any, first: int, last: int) -> Any:
    begin, end = int(rows.starts[first]), int(rows.starts[last])
    return rows._replace(
        columns=rows.columns[begin:end], values=rows.values[begin:end], starts=rows.starts[first : last + 1] - begin,
        kinds=rows.kinds[begin:end] if len(rows.kinds) else rows.kinds, labels=rows.labels[first:last],
        importance=rows.importance[first:last],
    )  # fmt: skip


def are_texts(labels: np.ndarray) -> bool:
    """Whether labels are texts, and not numbers."""
    if labels.dtype.kind == "O":
        return any(isinstance(label, str) for label in labels.tolist())
    return labels.dtype.kind in "US"


def check_together(y: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that cannot stand beside those before them.

    These are texts beside numbers, and integers that would be rounded, because two of them could become equal.
    """
    if not len(y) or not len(classes):
        return
    if are_texts(y) != are_texts(classes):
        new, old = ("texts", "numbers") if are_texts(y) else ("numbers", "texts")
        raise DataError(f"y has {new} for labels, and the classes so far are {old}: use one of them")
    kinds = {y.dtype.kind, classes.dtype.kind}
    if not kinds <= set("iuf") or np.result_type(y, classes).kind != "f":
        return
    for labels in (y, classes):
        if labels.dtype.kind in "iu" and max(-int(labels.min()), int(labels.max())) > EXACT:
            raise DataError(
                f"labels of type {y.dtype} came after some of type {classes.dtype}, and numbers beyond 2^53 are not "
                "the same in both: use one type"
            )


def is_missing(y: np.ndarray) -> np.ndarray:
    """Which labels are missing."""
    return np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
