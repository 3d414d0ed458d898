"""Options of one solver: names and values checked, read from text on the command line, listed in help texts."""

from __future__ import annotations

import dataclasses
import math
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lineal.errors import OptionError, nearest, unknown_value
from lineal.system.options import Options

#: Texts that mean yes and no on the command line.
YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def choice(default: str | None, known: Iterable[str], text: str) -> Any:
    """A field that takes one of some names, with its default and its help."""
    return field(default=default, metadata={"help": text, "choices": tuple(known)})


@dataclass(frozen=True)
class SolverOptions(Options):
    """Base of the options of a solver: a frozen dataclass whose fields are names, flags or positive (whole) numbers."""

    @staticmethod
    def of(options: type[SolverOptions] | None, solver: str, values: Mapping[str, Any]) -> SolverOptions | None:
        """Checked options by their names; None if a solver has none and none is given."""
        if options is None:
            if values:
                raise OptionError(f"solver {solver!r} has no options: leave out {', '.join(map(repr, values))}")
            return None
        known = [entry.name for entry in dataclasses.fields(options)]
        for name in values:
            if name not in known:
                raise OptionError(f"solver {solver!r} has no option {name!r}: {nearest(name, known)}")
        return options(**values).checked()

    def checked(self) -> SolverOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        hints = typing.get_type_hints(type(self))
        for entry in dataclasses.fields(self):
            value, kind, optional = getattr(self, entry.name), *_kind(hints[entry.name])
            if value is None and optional:
                continue
            if "choices" in entry.metadata:
                if value not in entry.metadata["choices"]:
                    raise unknown_value(entry.name, value, entry.metadata["choices"])
            elif kind is bool:
                self.need_flags(entry.name)
            elif kind is int:
                self.need(entry.name, lambda v: operator.index(v) > 0, "a positive whole number")
            else:
                self.need(entry.name, lambda v: 0.0 < v < math.inf, "a positive number")
        return self


def names_and_values(options: type[SolverOptions]) -> str:
    """The options with the values that they take, on one line of a help text."""
    hints = typing.get_type_hints(options)
    parts = []
    for entry in dataclasses.fields(options):
        kind, _ = _kind(hints[entry.name])
        values = entry.metadata.get("choices") or (("true", "false") if kind is bool else ("NUMBER",))
        parts.append(f"{entry.name}={'|'.join(values)}")
    return ", ".join(parts)


def parsed(options: type[SolverOptions] | None, texts: Mapping[str, str]) -> dict[str, Any]:
    """Values of texts, by the types of the options. What is unknown or malformed stays text, and is refused later."""
    hints = {} if options is None else typing.get_type_hints(options)
    return {name: _value(text, *_kind(hints[name])) if name in hints else text for name, text in texts.items()}


def _value(text: str, kind: Any, optional: bool) -> Any:
    if optional and text.lower() == "none":
        return None
    if kind is bool:
        return True if text.lower() in YES else False if text.lower() in NO else text
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    return text


def _kind(hint: Any) -> tuple[Any, bool]:
    """The type of an option, and whether it may be None."""
    if not isinstance(hint, types.UnionType):
        return hint, False
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return kinds[0], True
