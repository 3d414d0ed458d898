"""Flags made from option dataclasses: names, types, defaults and help come from the library."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import typer

from lineal.cli.files import WRITES
from lineal.errors import OptionError
from lineal.system.options import OF_FEATURES

#: The form of a value that the type of the flag does not show.
METAVARS = {
    "rate": "FLOAT|tune", "class_weight": "balanced|LABEL=WEIGHT,…", "solver_options": "NAME=VALUE",
    "threshold": "NAME|COSTS",
}  # fmt: skip

#: Help of flags whose values differ from those of the field in Python.
HELP = {
    "class_weight": "weights of classes: balanced, or for example spam=2,ham=1",
    "threshold": "what decides, learnt from held-out rows. One label per row: f1 or balanced for the best F1 or "
    "balanced accuracy, or costs, one row per true and one column per predicted class, for example '[[0,1],[5,0]]'; by "
    "default the largest score. Label sets: zero, global, per_label, learned; by default learned for label_ranking, "
    "else zero",
    "accelerated": "method: Nesterov's momentum, or with --no-accelerated plain iterations; by default quasi_newton",
}

#: How Python's help of fields says what the default is, and how the help of flags says it.
DEFAULTS = (
    ("None or -1 means", "by default, and for -1,"), ("None means", "by default"), ("None for", "by default"),
    ("None detects", "by default detects"), ("None takes", "by default"), ("None:", "by default"),
    (", or None", "; by default none"), (", or a lineal.Link", ""),
)  # fmt: skip

#: Fields without a flag: the command decides them, or they have a value for every feature.
NO_FLAGS = ("labels", *OF_FEATURES)

#: Flags whose names differ from those of their fields.
FLAG_NAMES = {"generator": "--features", "solver_options": "--solver-option"}

#: Further names of flags.
OTHER_NAMES = {"ignore": ("--drop",)}

#: Flags that name a file that is written.
FILES = ("checkpoint",)

#: Flags that may be given several times, with one text each.
REPEATED = ("solver_options",)

#: Titles of the sections of the help.
SECTIONS = {
    "LeastSquaresOptions": "Options of --model-type least_squares",
    "StagewiseOptions": "Options of --model-type stagewise",
    "OnlineOptions": "Options of --online",
    "PathOptions": "Search options",
    "ClusterOptions": "Options of --engine dask",
    "TrainOptions": "Training options",
    "ReadOptions": "Reading options",
}


def flags(leave_out: tuple[str, ...] = (), **groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a command a flag for every field of the dataclasses in `groups`.

    The function gets one dict per group with the values that the user gave. Defaults are not in it, because "float64 as
    the user said" and "float64 by default" differ for files that hold float32. A field that several groups have is one
    flag.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name not in groups]
        made: dict[str, inspect.Parameter] = {}
        for options in groups.values():
            for name, parameter in parameters_of(options).items():
                if name not in (*leave_out, *NO_FLAGS):
                    made.setdefault(name, parameter)
        _add_other_defaults(made, groups)

        @functools.wraps(function)
        def run(**values: Any) -> Any:
            given = {name: values.pop(name) for name in made}
            for group, options in groups.items():
                names = [field.name for field in dataclasses.fields(options)]
                values[group] = {name: given[name] for name in names if given.get(name) not in (None, [])}
            return function(**values)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *made.values())]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def parameters_of(options: type) -> dict[str, inspect.Parameter]:
    """One keyword parameter per field, as Typer reads them."""
    hints = typing.get_type_hints(options)
    parameters = {}
    for field in dataclasses.fields(options):
        kind = list[str] if field.name in REPEATED else _plain_type(hints[field.name])
        flag = flag_of(field.name)
        info = typer.Option(
            f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
            *OTHER_NAMES.get(field.name, ()),
            help=_help(field, flag),
            show_default=False,  # the default is None, for "not given"; the help text has the real one
            metavar=METAVARS.get(field.name),
            parser=_number_or_text if hints[field.name] in (float | str, float | str | None) else None,
            rich_help_panel=SECTIONS.get(options.__name__),
        )
        marks = (WRITES,) if field.name in FILES else ()
        parameters[field.name] = inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info, *marks]
        )
    return parameters


def flag_of(name: str) -> str:
    """The flag of a field."""
    return FLAG_NAMES.get(name, "--" + name.replace("_", "-"))


def _add_other_defaults(made: dict[str, inspect.Parameter], groups: dict[str, type]) -> None:
    """Add to the help of a flag that several groups share the defaults that differ from the first one."""
    for name, parameter in made.items():
        found = {}
        for group, options in groups.items():
            for field in dataclasses.fields(options):
                if field.name == name:
                    found[group] = field.default
        first, *rest = found.items()
        others = [
            f"{group.removesuffix('_learning')} {default}" for group, default in rest if default not in (first[1], None)
        ]
        if others:
            info = typing.get_args(parameter.annotation)[1]
            info.help = f"{info.help.removesuffix(']')}; {', '.join(others)}]" if info.help.endswith("]") else info.help


def _plain_type(hint: Any) -> Any:
    """The type of the value of a flag: that of the field without None; text if the field takes anything."""
    if isinstance(hint, types.UnionType):
        hint = next(kind for kind in typing.get_args(hint) if kind is not type(None))
    return str if hint is Any else hint


def _number_or_text(text: str) -> float | str:
    """The value of a flag that takes numbers and words, such as --rate."""
    try:
        return float(text)
    except ValueError:
        return text


def _help(field: dataclasses.Field[Any], flag: str) -> str:
    text = HELP.get(field.name, field.metadata["help"])
    for python, here in DEFAULTS:
        text = text.replace(python, here)
    text = f"{text[:1].upper()}{text[1:]}."
    if field.default is None or field.name in HELP:
        return text
    shown = field.default if not isinstance(field.default, bool) else flag if field.default else f"--no-{flag[2:]}"
    return f"{text} [default: {shown}]"


def parse_solver_options(texts: list[str] | None, solver: str) -> dict[str, Any] | None:
    """Options of a solver from texts NAME=VALUE, with values of the types that it expects."""
    if not texts:
        return None
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not (name and separator and value):
            raise OptionError(f"--solver-option {text!r} is not NAME=VALUE, for example globalisation=trust_region")
        if name in found:
            raise OptionError(f"--solver-option {name} is given twice: {found[name]!r} and {value!r}")
        found[name] = value
    from lineal import solvers
    from lineal.system.solver_options import parsed

    return parsed(solvers.options_class(solver) if solver in solvers.names() else None, found)


def parse_threshold(text: str | None) -> Any:
    """None, the name of a rule, or a matrix of costs from a list of lists as in JSON."""
    if text is None or not text.strip().startswith("["):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError(
            f"--threshold {text!r} is no matrix of costs: write one list per true class with one number per predicted "
            "class, for example '[[0,1],[5,0]]'"
        ) from None


def parse_class_weight(text: str | None) -> Any:
    """None, "balanced", or a dict made from "label=weight,label=weight"; labels stay text until the data is known."""
    if text is None or text == "balanced":
        return text
    weights = {}
    for part in text.split(","):
        label, separator, weight = part.rpartition("=")
        try:
            if not separator:
                raise ValueError
            weights[label.strip()] = float(weight)
        except ValueError:
            raise OptionError(
                f"--class-weight {text!r}: {part!r} is not LABEL=WEIGHT; say 'balanced' or, for example, spam=2,ham=1"
            ) from None
    return weights
