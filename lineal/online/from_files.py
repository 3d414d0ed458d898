"""Online learning from files: one stream per pass, whose first block shows what the labels are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lineal.core.threads import thread_count
from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.parts import Part
from lineal.data.schema import Schema
from lineal.data.source import expand, size_and_time
from lineal.data.stream import check_parts, count_rows, has_fixed_columns, stream
from lineal.errors import DataError
from lineal.online import interactions
from lineal.online.ending import OnlineRun
from lineal.online.fit import fit_online
from lineal.online.learner_rows import FileRows
from lineal.online.model import OnlineModel
from lineal.online.options import OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.places import is_on_cluster, place_of
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Block, Trainer


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
                checkpoint=options.checkpoint, learners=1, engine="auto", shuffle=options.shuffle,
                shuffle_buffer=options.shuffle_buffer, random_state=options.random_state,
            )  # fmt: skip
            self.namespaces = model.namespaces
        self._begin = time.monotonic()  # a pipe can let the first block wait
        self._check_parts(None if model is None else model.schema)
        self._stream = self._open(None if model is None else model.schema)
        try:
            self.first = next(self._stream)
        except StopIteration:
            raise DataError(f"{path} has no examples") from None
        if self.first.y is None:
            raise DataError(f"{path} has no labels; name the label column of a table (--label)")
        self._is_first_pass = True

    def fit(self) -> tuple[OnlineModel, Trainer, OnlineRun]:
        """Learn in as many passes as the options say."""
        start = None if self.model is None else Trainer.of(self.model)
        kind, classes = (start.kind, start.classes) if start is not None else self._kind_and_classes()
        width = int(self.first.X.shape[1]) if start is None else start.width
        if self._is_shared:
            place = place_of(self._rows(), self.options)
            trainer, run, self.bad_lines = learn_together(place, self.options, kind, classes=classes, width=width)
        else:
            trainer, run = fit_online(
                self._blocks, self.options, kind, classes=classes, n_examples=self._count() if start is None else None,
                width=width, start=start, begin=self._begin,
            )  # fmt: skip
        classes = _whole(trainer.classes)
        schema = _with_label_type(self.first.schema, trainer.kind, classes)
        model = trainer.model(run.status, feature_names=self.first.feature_names, schema=schema)
        return replace(model, classes=classes), trainer, run

    def _open(self, schema: Schema | None) -> Iterator[Dataset]:
        return stream(
            self.path, self.reading, schema, namespaces=self.namespaces, merge=self._merges,
            class_names=self._class_names,
        )  # fmt: skip

    @property
    def _merges(self) -> bool:
        return self.options.expansion is not None and not self.namespaces

    @property
    def _class_names(self) -> list[Any] | None:
        return self.labels.classes if self.labels.are_sets else None

    # --- several learners

    @property
    def _is_shared(self) -> bool:
        """Whether learners have parts of the files, or are elsewhere."""
        return self.options.learners > 1 or is_on_cluster(self.options)

    def _check_parts(self, schema: Schema | None) -> None:
        """Refuse files that cannot be cut into as many parts as there are learners, before anything is read."""
        if self._is_shared:
            check_parts(self.path, self.reading, schema, self.options.learners)

    def _rows(self) -> list[FileRows]:
        """The part of the files that every learner reads; it shares the threads of this machine."""
        self._stream.close()  # type: ignore[attr-defined]
        options, reading, count = self.options, self.reading, int(self.options.learners)
        paths = [os.path.abspath(path) for path in expand(self.path)]  # workers can have another working directory
        states = [size_and_time(path) for path in paths]
        if reading.n_jobs is None:
            reading = replace(reading, n_jobs=max(1, thread_count(options.n_jobs) // count))
        return [
            FileRows(
                paths, states, reading, self.first.schema, self.namespaces, self._merges, self._class_names,
                Part(number, count), options.expansion == "adaptive" and options.schedule != "doubling",
            )
            for number in range(count)
        ]  # fmt: skip

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
