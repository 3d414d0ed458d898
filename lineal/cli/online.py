"""`lineal train --online`: a stream of examples becomes a model, in one pass and constant memory."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

from lineal.cli import show
from lineal.cli.files import note_header, save_model, write_history
from lineal.cli.messages import INTERRUPTED, say
from lineal.cli.training import Clock
from lineal.data.options import ReadOptions
from lineal.errors import DataError, OptionError
from lineal.online.options import TUNE, OnlineOptions


@dataclasses.dataclass
class Request:
    """What the command line asks for beside the options."""

    data: str
    model: str
    validate: str | None
    history: str | None
    plot: str | None
    is_number: bool
    has_sets: bool
    classes: str | None
    resume: str | None
    verbose: bool | None
    json: bool

    def check(self, options: OnlineOptions, holdout: float | None, given: dict[str, Any]) -> None:
        """Refuse what cannot be done, before anything is read."""
        if holdout is not None:
            raise OptionError(
                "--holdout is not for --online, whose progressive loss is of examples that were not learned from yet: "
                "leave it out, or --validate a file"
            )
        if options.passes > 1 and self.data == "-":
            raise OptionError(
                f"--passes {options.passes} of standard input, which can be read once: write it to a file first, for "
                "example with `lineal convert - rows.arrow`, and train on that"
            )
        fixed = ["--" + name.replace("_", "-") for name in given if name not in ("max_time", "n_jobs")]
        fixed += ["--tune"] if options.rate == TUNE else []
        if self.resume is not None and fixed:
            flags = ", ".join(fixed)
            raise OptionError(f"--resume goes on with the options of {self.resume}: leave out {flags}")
        if self.resume is not None and (self.classes is not None or self.is_number or self.has_sets):
            raise OptionError(
                "--resume goes on with the classes of its model: leave out --classes, --label-sets and --regression"
            )
        if self.is_number and (self.classes is not None or self.has_sets):
            raise OptionError("--classes and --label-sets are for classes, --regression is for numbers: choose")
        if self.has_sets and self.classes is None:
            raise OptionError("--label-sets of a stream need --classes: the numbers that can be labels")
        if self.has_sets and not all(isinstance(label, float) for label in _labels(str(self.classes))):
            raise OptionError(f"--classes {self.classes}: those of --label-sets are numbers")


def train_online(request: Request, options: OnlineOptions, reading: dict[str, Any]) -> int | None:
    """Learn from the stream, write the model, say how it went."""
    from lineal.online.fit import fit_online

    clock = Clock()
    rows = _Rows(request, options, reading)
    start = rows.start()
    if rows.model is None:
        note_header(request.data, rows.first, reading)
    clock.lap("open")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer, run = fit_online(
            rows.blocks, start.options, start.kind, classes=start.classes, n_examples=start.n_examples,
            width=start.width, start=start.trainer,
        )  # fmt: skip
    for message in dict.fromkeys(str(warning.message) for warning in caught):  # once, however many passes
        say(f"warning: {message}")
    clock.lap("learn")
    model = trainer.model(
        run.status, feature_names=rows.first.feature_names, schema=_schema(rows.first.schema, trainer)
    )
    model = dataclasses.replace(model, classes=_whole(trainer.classes))
    save_model(model, request.model)
    if request.history is not None:
        write_history(request.history, run.history)
    if request.plot is not None:
        from lineal.report import plot_progress

        plot_progress(run.history, request.plot)
    clock.lap("save")
    if rows.bad_lines:
        say(f"warning: {rows.bad_lines} malformed lines were skipped")
    if run.status == "interrupted":
        say(f"{run.message}; the model so far is in {request.model}")
    elif run.status != "converged":
        say(f"warning: {run.message}")
    if request.verbose is not False or request.json:
        result = _result(request, model, trainer, run, rows, reading)
        clock.lap("measure")
        _show(result | {"seconds": clock.seconds}, request.json, run.history)
    return INTERRUPTED if run.status == "interrupted" else None


@dataclasses.dataclass
class _Start:
    """What a learner begins with."""

    options: OnlineOptions
    kind: str
    classes: Any
    n_examples: int | None
    width: int
    trainer: Any


class _Rows:
    """The stream, once a pass; its first block tells what the labels are."""

    def __init__(self, request: Request, options: OnlineOptions, reading: dict[str, Any]) -> None:
        from lineal.online import interactions

        self.request, self.options = request, options
        own = {"bits": options.bits} if _has_bits(request.data, reading) else {}
        self.reading = ReadOptions(**{**{name: reading[name] for name in reading if name != "bits"}, **own})
        self.bad_lines = 0
        products = None if options.interactions is None else interactions.parse(options.interactions)
        self.namespaces = [] if products is None else interactions.names_of(products)
        self.class_names = None if request.classes is None else _labels(request.classes)
        self.model: Any = None
        if request.resume is not None:
            from lineal.models.file import load

            self.model = load(request.resume)
            if self.model.kind != "online":
                raise OptionError(f"--resume {request.resume}: it is a {self.model.kind} model, not one of --online")
            self.options = dataclasses.replace(
                self.model.learner.options, passes=1, hold_out=options.hold_out, patience=options.patience,
                max_time=options.max_time, n_jobs=options.n_jobs, verbose=options.verbose,
            )  # fmt: skip
            self.namespaces = self.model.namespaces
        self._stream = self._open(None if self.model is None else self.model.schema)
        try:
            self.first = next(self._stream)
        except StopIteration:
            raise DataError(f"{request.data} has no examples") from None
        self._is_first_pass = True

    def _open(self, schema: Any) -> Iterator[Any]:
        from lineal.data.stream import stream

        return stream(
            self.request.data, self.reading, schema, namespaces=self.namespaces,
            merge=self.options.expansion is not None and not self.namespaces,
            class_names=self.class_names if self.request.has_sets else None,
        )  # fmt: skip

    def start(self) -> _Start:
        """Kind of the labels, classes, number of examples where it is known."""
        from lineal.online.fit import CLASSES, NUMBERS, SETS, Trainer

        first = self.first
        if first.y is None:
            raise DataError(f"{self.request.data} has no labels; name the label column of a table with --label")
        if self.model is not None:
            trainer = Trainer.of(self.model)
            return _Start(self.options, trainer.kind, trainer.classes, None, trainer.width, trainer)
        kind = NUMBERS if self.request.is_number else SETS if first.is_multilabel else CLASSES
        if kind == NUMBERS and first.is_multilabel:
            raise DataError(f"{self.request.data} has several labels a row, and --regression is for one number")
        classes = self.class_names if kind == CLASSES else first.class_names if kind == SETS else None
        if kind == CLASSES and classes is not None:
            import numpy as np

            classes = np.unique(np.asarray(classes))
        return _Start(self.options, kind, classes, self._count(), int(first.X.shape[1]), None)

    def _count(self) -> int | None:
        """Examples of plain files, for equal epochs; None where only reading tells."""
        if self.options.expansion != "adaptive" or self.options.schedule == "doubling":
            return None
        import os

        from lineal.data.source import expand

        paths = expand(self.request.data)
        if self.first.schema is None or not all(map(os.path.isfile, paths)):
            return None
        counts = [_rows_in(path, self.reading.format, self.first.schema) or 0 for path in paths]
        return sum(counts) if all(counts) else None

    def blocks(self) -> Iterable[Any]:
        """One pass."""
        from lineal.online.fit import Block

        is_first, self._is_first_pass = self._is_first_pass, False
        blocks = self._stream if is_first else self._open(self.first.schema)
        with closing(blocks):  # type: ignore[type-var]
            for data in [self.first] if is_first else []:
                self.bad_lines += data.bad_lines
                yield Block(data.X, data.y, data.weights, data.kinds)
            for data in blocks:
                self.bad_lines += data.bad_lines if is_first else 0
                yield Block(data.X, data.y, data.weights, data.kinds)


def _has_bits(data: str, reading: dict[str, Any]) -> bool:
    """Whether how a file is read depends on the number of weights: arrays and converted files have their columns."""
    import os

    from lineal.data.read import format_of
    from lineal.data.source import expand

    path = expand(data)[0]
    if not os.path.isfile(path):
        return True
    kind = reading.get("format", "auto")
    kind = format_of(path) if kind == "auto" else kind
    if kind == "arrow":
        from lineal.data.binary.layout import is_layout

        return not is_layout(path)
    return kind not in ("npy", "npz")


def _rows_in(path: str, given: str, schema: Any) -> int | None:
    """How many rows a file says that it has; None where it does not."""
    from lineal.data.read import format_of
    from lineal.data.source import line_count

    kind = format_of(path) if given == "auto" else given
    if kind in ("npy", "npz"):
        return None
    if kind in ("parquet", "arrow"):
        from pyarrow import ArrowException
        from pyarrow.dataset import dataset

        try:
            return int(dataset(path, format=kind).count_rows())
        except (ArrowException, OSError):  # compressed, or no regular file of that kind
            return None
    lines = line_count(path)
    return lines if lines is None else lines - bool(schema.settings.get("header") and kind in ("csv", "tsv"))


def _labels(text: str) -> list[Any]:
    """Numbers, or texts where one of them is no number."""
    texts = [part.strip() for part in text.split(",")]
    try:
        return [float(part) for part in texts]
    except ValueError:
        return texts


def _whole(classes: Any) -> Any:
    """Numbers without a fraction as integers: a stream's labels are read as floats."""
    import numpy as np

    if classes.dtype.kind == "f" and len(classes) and np.array_equal(classes, np.round(classes)):
        return classes.astype(np.int64)
    return classes


def _schema(schema: Any, trainer: Any) -> Any:
    """How other files are read: with labels of the type that the classes have."""
    if schema is None or schema.settings.get("labels") != "float" or trainer.kind != "classes":
        return schema
    kind = "int" if _whole(trainer.classes).dtype.kind == "i" else "float"
    return dataclasses.replace(schema, settings={**schema.settings, "labels": kind})


def _result(
    request: Request, model: Any, trainer: Any, run: Any, rows: _Rows, reading: dict[str, Any]
) -> dict[str, Any]:
    learner = trainer.learner
    last = learner.history[-1] if learner.history else {}
    result = {
        "model": request.model,
        "examples": learner.examples,
        "features": model.n_features,
        "classes": len(model.classes),
        "status": run.status,
        "message": run.message,
        "progressive_loss": last.get("average_loss"),
        "held_out_loss": last.get("held_out_loss"),
        "passes": max(1, learner.passes),
        "rate": learner.options.rate,
        "parents": len(learner.parents),
        "bad_lines": rows.bad_lines,
    }
    if request.validate is not None:
        from lineal.cli.evaluate import measure, rows_for

        told = {option: value for option, value in reading.items() if option != "bits"}  # the model knows them
        measured = measure(model, rows_for(model, request.validate, told))
        name = next(name for name in ("accuracy", "mean_squared_error", "subset_accuracy") if name in measured)
        result |= {f"validation_{name}": measured[name], "validation_rows": measured["rows"]}
    return result


def _show(result: dict[str, Any], as_json: bool, history: list[dict[str, float]]) -> None:
    if as_json:
        show.as_json(result | {"history": history})
        return
    hidden = ("message", "bad_lines", "seconds", "held_out_loss" if result["passes"] == 1 else "")
    entries = {name.replace("_", " "): value for name, value in result.items() if name not in hidden}
    entries["seconds"] = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in result["seconds"].items())
    show.pairs("lineal train --online", entries)
