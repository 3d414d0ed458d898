"""Online learning from files: one stream per pass, whose first block shows what the labels are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.stream import count_rows, has_fixed_columns, stream
from lineal.errors import DataError
from lineal.online import interactions
from lineal.online.fit import fit_online
from lineal.online.model import OnlineModel
from lineal.online.options import OnlineOptions
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Block, Trainer
from lineal.problem.solution import Run


class Labels(NamedTuple):
    """What is known about labels before the first row.

    Attributes
    ----------
    are_numbers : whether labels are numbers to predict, not classes.
    are_sets : whether a line of text has any number of labels, which are among `classes`.
    classes : all labels; None if new ones may appear at any time.
    """

    are_numbers: bool = False
    are_sets: bool = False
    classes: list[Any] | None = None


class FileLearner:
    """Learns from files, from scratch or from a model that it continues; the first block is read at once.

    Attributes
    ----------
    first : the first block.
    bad_lines : number of malformed lines that were skipped so far.
    """

    def __init__(
        self,
        path: str | list[str],
        options: OnlineOptions,
        reading: dict[str, Any],
        labels: Labels,
        model: OnlineModel | None = None,
    ) -> None:
        own: dict[str, Any] = {"ngram": options.ngram, "skips": options.skips}
        if not has_fixed_columns(path, reading.get("format", "auto")):
            own["bits"] = options.bits
        self.path, self.labels, self.model, self.bad_lines = path, labels, model, 0
        self.reading = ReadOptions(**{name: value for name, value in reading.items() if name != "bits"} | own)
        if model is None:
            self.options = options
            products = None if options.interactions is None else interactions.parse(options.interactions)
            self.namespaces = [] if products is None else interactions.names_of(products)
        else:
            self.options = replace(
                model.learner.options, passes=1, hold_out=options.hold_out, patience=options.patience,
                max_time=options.max_time, n_jobs=options.n_jobs, verbose=options.verbose,
                checkpoint=options.checkpoint,
            )  # fmt: skip
            self.namespaces = model.namespaces
        self._stream = self._open(None if model is None else model.schema)
        try:
            self.first = next(self._stream)
        except StopIteration:
            raise DataError(f"{path} has no examples") from None
        if self.first.y is None:
            raise DataError(f"{path} has no labels; name the label column of a table (--label)")
        self._is_first_pass = True

    def fit(self) -> tuple[OnlineModel, Trainer, Run]:
        """Learn in as many passes as the options say."""
        start = None if self.model is None else Trainer.of(self.model)
        kind, classes = (start.kind, start.classes) if start is not None else self._kind_and_classes()
        trainer, run = fit_online(
            self._blocks, self.options, kind, classes=classes, n_examples=self._count() if start is None else None,
            width=int(self.first.X.shape[1]) if start is None else start.width, start=start,
        )  # fmt: skip
        classes = _whole(trainer.classes)
        schema = _with_label_type(self.first.schema, trainer.kind, classes)
        model = trainer.model(run.status, feature_names=self.first.feature_names, schema=schema)
        return replace(model, classes=classes), trainer, run

    def _open(self, schema: Schema | None) -> Iterator[Dataset]:
        return stream(
            self.path, self.reading, schema, namespaces=self.namespaces,
            merge=self.options.expansion is not None and not self.namespaces,
            class_names=self.labels.classes if self.labels.are_sets else None,
        )  # fmt: skip

    def _kind_and_classes(self) -> tuple[str, Any]:
        """The kind of labels and the classes, as far as they are known from the first block."""
        first = self.first
        if self.labels.are_numbers:
            if first.is_multilabel:
                raise DataError(f"{self.path} has several labels per row, but a regression needs one number per row")
            return NUMBERS, None
        if first.is_multilabel:
            return SETS, first.class_names
        return CLASSES, None if self.labels.classes is None else np.unique(np.asarray(self.labels.classes))

    def _count(self) -> int | None:
        """The number of examples, if equal epochs need it and the files show it without being read."""
        if self.options.expansion != "adaptive" or self.options.schedule == "doubling" or self.first.schema is None:
            return None
        return count_rows(self.path, self.reading.format, self.first.schema)

    def _blocks(self) -> Iterable[Block]:
        """The blocks of one pass."""
        is_first, self._is_first_pass = self._is_first_pass, False
        blocks = self._stream if is_first else self._open(self.first.schema)
        with closing(blocks):  # type: ignore[type-var]
            for data in [self.first] if is_first else []:
                self.bad_lines += data.bad_lines
                yield Block(data.X, data.y, data.weights, data.kinds)
            for data in blocks:
                self.bad_lines += data.bad_lines if is_first else 0
                yield Block(data.X, data.y, data.weights, data.kinds)


def _whole(classes: np.ndarray) -> np.ndarray:
    """Numbers without a fraction as integers: a stream reads labels as floats."""
    if classes.dtype.kind == "f" and len(classes) and np.array_equal(classes, np.round(classes)):
        return classes.astype(np.int64)
    return classes


def _with_label_type(schema: Schema | None, kind: str, classes: np.ndarray) -> Schema | None:
    """The schema with the type of the classes, so that other files are read with labels of this type."""
    if schema is None or schema.settings.get("labels") != "float" or kind != CLASSES:
        return schema
    labels = "int" if classes.dtype.kind == "i" else "float"
    return replace(schema, settings={**schema.settings, "labels": labels})
