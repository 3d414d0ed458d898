"""`lineal train --online`: learn a model from a stream of rows, in one pass and constant memory."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

from lineal.cli import show
from lineal.cli.files import note_header, save_model, with_labels, write_history
from lineal.cli.flags import flag_of
from lineal.cli.labels import check_values
from lineal.cli.terminal import INTERRUPTED, say
from lineal.cli.training import Clock, announced, seconds_text
from lineal.cli.wording import for_command_line
from lineal.errors import OptionError
from lineal.online.options import TUNE, OnlineOptions

#: Reading options that the model knows.
KNOWN = ("bits", "ngram", "skips")

#: Options that --resume takes: they are about the rows and the fit, not about the model.
WITH_RESUME = ("max_time", "n_jobs", "checkpoint", "shuffle", "shuffle_buffer", "random_state")

if TYPE_CHECKING:
    from lineal.online.ending import OnlineRun
    from lineal.online.from_files import FileLearner
    from lineal.online.model import OnlineModel
    from lineal.online.trainer import Trainer


@dataclasses.dataclass
class Request:
    """The arguments and flags of the command beside its options."""

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
    classify: bool = False

    def check(self, options: OnlineOptions, holdout: float | None, given: dict[str, Any]) -> None:
        """Refuse what cannot be done before anything is read; `given` are the options that the user gave."""
        if holdout is not None:
            raise OptionError(
                "--holdout is not for --online, whose progressive loss already comes from examples that were not "
                "learned from yet: leave it out, or --validate a file"
            )
        if options.passes > 1 and self.data == "-":
            raise OptionError(
                f"--passes {options.passes} is not possible for standard input, which can be read once: write it to a "
                "file first, for example with `lineal convert - rows.arrow`, and train on that"
            )
        if "random_state" in given and not options.shuffle:
            raise OptionError("--random-state is the seed of --shuffle: add --shuffle, or leave it out")
        fixed = [flag_of(name) for name in given if name not in WITH_RESUME]
        fixed += ["--tune"] if options.rate == TUNE else []
        if self.resume is not None and fixed:
            raise OptionError(f"--resume keeps the options of {self.resume}: leave out {', '.join(fixed)}")
        if self.resume is not None and (self.classes is not None or self.is_number or self.has_sets):
            raise OptionError(
                "--resume keeps the classes of its model: leave out --classes, --label-sets and --regression"
            )
        if self.is_number and (self.classes is not None or self.has_sets):
            raise OptionError("--classes and --label-sets are for classes, --regression is for numbers: choose one")
        if self.classify and (self.is_number or self.has_sets or self.classes is not None or self.resume is not None):
            raise OptionError(
                "--classify is for labels of which nothing else is said: leave it out, or --regression, --label-sets, "
                "--classes and --resume"
            )
        if self.has_sets and self.classes is None:
            raise OptionError("--label-sets needs --classes, the numbers that can be labels")
        if self.has_sets and not all(isinstance(label, float) for label in parse_labels(str(self.classes))):
            raise OptionError(f"--classes {self.classes}: with --label-sets, classes are numbers")


def on_workers(options: OnlineOptions, workers: int, given: dict[str, Any]) -> OnlineOptions:
    """The options with one learner per worker of a cluster, unless --learners was given; says so.

    A scheduler can be without workers when a command starts: then one learner waits for the first of them.
    """
    if options.engine != "dask" or workers == 1:
        return options
    if "learners" not in given and workers > 1:
        say(f"note: the rows are shared by {workers} learners, one per worker: --learners sets another number")
        return dataclasses.replace(options, learners=workers)
    if options.learners == 1:
        say("note: one learner uses one worker: --learners is the number of learners that share the rows")
    return options


def train_online(request: Request, options: OnlineOptions, reading: dict[str, Any]) -> int | None:
    """Learn from the stream, write the model, and report the outcome."""
    from lineal.online.from_files import FileLearner, Labels

    clock = Clock()
    labels = Labels(
        request.is_number, request.has_sets, None if request.classes is None else parse_labels(request.classes)
    )
    start = None if request.resume is None else _load_online(request.resume)
    learner = FileLearner(request.data, options, reading, labels, start)
    if start is None:
        note_header(request.data, learner.first, reading)
        if not (request.is_number or request.classes is not None or learner.first.is_multilabel):
            check_values(learner.first.y, learner.first.schema, request.data, request.classify, is_all=False)
    clock.lap("open")
    with announced(options), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, trainer, run = learner.fit()
    for message in dict.fromkeys(str(warning.message) for warning in caught):  # once, however many passes
        say(f"warning: {for_command_line(message)}")
    clock.lap("learn")
    save_model(model, request.model)
    if request.history is not None:
        write_history(request.history, run.history)
    if request.plot is not None:
        from lineal.report import plot_progress

        plot_progress(run.history, request.plot)
    clock.lap("save")
    if len(model.classes) == 1 and request.classes is None and not request.is_number:
        say(f"warning: all labels are {model.classes.tolist()[0]!r}: the model knows one class and always predicts it")
    if learner.bad_lines:
        say(f"warning: {learner.bad_lines} malformed lines were skipped")
    if run.status == "interrupted":
        say(f"{run.message}; the model so far is in {request.model}")
    elif run.needs_warning:
        say(f"warning: {for_command_line(run.message)}")
    if request.verbose is not False or request.json:
        result = _result(request, model, trainer, run, learner)
        if request.validate is not None:
            result |= _validation(model, request.validate, reading)
        clock.lap("measure")
        _show(result | {"seconds": clock.seconds}, request.json, run.history)
    return INTERRUPTED if run.status == "interrupted" else None


def parse_labels(text: str) -> list[Any]:
    """Labels separated by commas: numbers, or texts if one of them is not a number."""
    texts = [part.strip() for part in text.split(",")]
    try:
        return [float(part) for part in texts]
    except ValueError:
        return texts


def _load_online(path: str) -> OnlineModel:
    from lineal.models.file import load

    model = load(path)
    if model.kind != "online":
        raise OptionError(f"--resume {path}: it is a {model.kind} model, not one of --online")
    return model


def _result(
    request: Request, model: OnlineModel, trainer: Trainer, run: OnlineRun, rows: FileLearner
) -> dict[str, Any]:
    learner = trainer.learner
    last = learner.history[-1] if learner.history else {}
    return {
        "model": request.model,
        "examples": learner.examples,
        "features": model.n_features,
        "classes": len(model.classes),
        "status": run.status,
        "message": run.message,
        "progressive_loss": last.get("average_loss"),
        "held_out_loss": last.get("held_out_loss"),
        "passes": max(1, learner.passes),
        "learners": int(learner.options.learners),
        "rate": learner.options.rate,
        "parents": len(learner.parents),
        "bad_lines": rows.bad_lines,
    }


def _validation(model: OnlineModel, path: str, reading: dict[str, Any]) -> dict[str, Any]:
    """The measures that matter of the model on a labelled file."""
    from lineal.models.evaluation import summary_of

    given = {option: value for option, value in reading.items() if option not in KNOWN}
    found, rows = summary_of(model, with_labels(model.read_labelled(path, **given), path))
    return {**{f"validation_{name}": value for name, value in found.items()}, "validation_rows": rows}


def _show(result: dict[str, Any], as_json: bool, history: list[dict[str, float]]) -> None:
    if as_json:
        show.as_json(result | {"history": history})
        return
    hidden = ["message", "bad_lines", "seconds"]
    hidden += [name for name, only in (("held_out_loss", "passes"), ("learners", "learners")) if result[only] == 1]
    entries = {name: value for name, value in result.items() if name not in hidden}
    entries["seconds"] = seconds_text(result["seconds"])
    show.pairs("lineal train --online", entries)
