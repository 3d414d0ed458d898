"""The base of the option dataclasses of all families: fields with help, checks of values, JSON for model files."""

from __future__ import annotations

import dataclasses
import math
import operator
import os
from collections.abc import Callable
from dataclasses import field
from typing import Any

from lineal.errors import OptionError

#: Options with a value for every feature, which have no flag on the command line.
OF_FEATURES = ("feature_groups", "penalty_factors")


#: Options that are about a fit and not about its model, so that model files do not have them.
NOT_OF_MODELS = ("checkpoint",)


def option(default: Any, text: str) -> Any:
    """A dataclass field with its default and its line of help."""
    return field(default=default, metadata={"help": text})


def checkpoint_option() -> Any:
    """The field of the checkpoint file, which all families have."""
    return option(None, "file to write the state of the fit to; a fit that was killed continues from it")


class Options:
    """The base of option dataclasses: checks of values, and JSON for model files."""

    def need(self, name: str, holds: Callable[[Any], bool], expected: str) -> None:
        """Refuse the value of an option for which `holds` is not true; `expected` says what it should be."""
        value = getattr(self, name)
        try:
            fine = not isinstance(value, bool | str) and bool(holds(value))
        except (TypeError, ValueError, OverflowError):
            fine = False
        if not fine:
            raise OptionError(f"{name}={value!r} is not {expected}")

    def need_flags(self, *names: str) -> None:
        """Refuse options that are neither True nor False."""
        for name in names:
            if type(getattr(self, name)).__name__ not in ("bool", "bool_"):
                raise OptionError(f"{name}={getattr(self, name)!r} is neither True nor False")

    def need_common(self, *names: str) -> None:
        """Check options that have the same meaning in all families; some of them may be None."""
        for name in names:
            if getattr(self, name) is not None or name not in _MAY_BE_NONE:
                self.need(name, *_COMMON[name])

    def to_json(self) -> dict[str, Any]:
        """The options as plain JSON values, for model files."""
        values = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}  # type: ignore[arg-type]
        if isinstance(values.get("class_weight"), dict):
            values["class_weight"] = [[_plain(label), float(w)] for label, w in values["class_weight"].items()]
        for name in OF_FEATURES:  # as long as X is wide, so only whether they were given is stored
            if name in values:
                values[name] = None if values[name] is None else "given"
        return {name: _plain(value) for name, value in values.items() if name not in NOT_OF_MODELS}


_COMMON: dict[str, tuple[Callable[[Any], bool], str]] = {
    "alpha": (lambda v: 0.0 <= v < math.inf, "a finite number ≥ 0"),
    "tol": (lambda v: 0.0 < v < math.inf, "a number > 0"),
    "max_iter": (lambda v: v == int(v) and v >= 0, "an integer ≥ 0"),
    "max_time": (lambda v: v > 0.0, "seconds > 0 or None"),
    "random_state": (lambda v: 0 <= operator.index(v) < 2**64, "an integer ≥ 0 and below 2^64, or None"),
    "verbose": (lambda v: operator.index(v) >= 0, "an integer ≥ 0"),
}
_MAY_BE_NONE = ("max_time", "random_state")


def need_checkpoint(path: Any) -> None:
    """Refuse a checkpoint that is not the name of a file."""
    if not (path is None or isinstance(path, str | os.PathLike)) or path == "":
        raise OptionError(f"checkpoint={path!r} is not the name of a file, or None")


def _plain(value: Any) -> Any:
    import numpy as np  # not above: help needs no NumPy

    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, bool | int | float | str | list) else repr(value)


def describe(options: Any, indent: str = "    ", leave_out: tuple[str, ...] = ()) -> str:
    """The fields of an options dataclass, except those in `leave_out`, as the parameter list of a docstring."""
    lines = []
    for entry in (entry for entry in dataclasses.fields(options) if entry.name not in leave_out):
        kind = f"{entry.type}, default {entry.default!r}"
        lines.append(f"{indent}{entry.name} : {kind}\n{indent}    {entry.metadata['help']}.")
    return "\n".join(lines)
