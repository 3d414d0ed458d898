"""Errors that a person can act on: each message says what is wrong, where, and what to do about it.

The command line prints an error on one line and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable


class LinealError(Exception):
    """The base of all errors that lineal raises on purpose."""


class DataError(LinealError, ValueError):
    """Data that cannot be used: malformed, missing, or of the wrong shape or type."""


class OptionError(LinealError, ValueError):
    """An option with a value that cannot be honoured."""


class ModelFileError(LinealError, ValueError):
    """A model file that is missing, damaged, or written by a newer version."""


class ClusterError(LinealError, RuntimeError):
    """A cluster that cannot be reached, has no workers, or loses them faster than it computes."""


class Unanswered(ClusterError):
    """Workers that have not answered for some time, although the fit should have ended."""


class CheckpointError(LinealError, ValueError):
    """A checkpoint file that is damaged, or of another fit."""


class DependencyError(LinealError, ImportError):
    """A package that lineal needs is installed in a version that it cannot use."""


class ParseError(DataError):
    """A malformed text file, with the position of the error."""

    def __init__(self, path: str, line: int, column: int, found: str, expected: str) -> None:
        self.path, self.line, self.column, self.found, self.expected = path, line, column, found, expected
        super().__init__(f"{path}:{line}:{column}: found {found}, expected {expected}")


def unknown_value(parameter: str, value: object, known: Iterable[str]) -> OptionError:
    """The error for a name that is not in `known`: it names the nearest one."""
    return OptionError(f"{parameter}={value!r} is unknown: {nearest(value, known)}")


def nearest(value: object, known: Iterable[str]) -> str:
    """What to say after a name that is not in `known`: the nearest one, and all of them."""
    known = sorted(known)
    return f"{similar(value, known)}known are {', '.join(map(repr, known))}"


def similar(value: object, known: Iterable[str]) -> str:
    """The question whether the nearest of the names was meant; empty if none is near."""
    import difflib  # here, since the command line imports this file before it can handle Ctrl-C

    known = sorted(known)
    text = str(value).lower()
    near = [name for name in known if text and name.startswith(text)] or difflib.get_close_matches(text, known, 1, 0.4)
    return f"did you mean {near[0]!r}? " if near else ""
