"""Messages of the library in the language of the command line: `missing='zero'` becomes `--missing zero`.

The library names options as Python writes them. Here they are found by their names, which are known, and written as the
flags that they are. Texts in quotation marks (names of columns, labels, cells of a file) and what the user typed stay
as they are, also if they look like options.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import shlex
import sys
from collections.abc import Iterable

from lineal.cli.flags import NO_FLAGS, flag_of

#: A value in quotation marks, and several of them: 'zero', 'mean' or 'indicator'.
_QUOTED = r"""(?:'[^']*'|"[^"]*")"""
_SEVERAL = rf"{_QUOTED}(?:(?:,| or|, or| and) {_QUOTED})*"

#: A value: in quotation marks, a number, a list (of lists) or dict, or a word up to the next space or punctuation.
_NUMBER = r"-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|inf|nan)(?![\w.]*\w)"
_LIST = r"\[(?:[^\[\]]|\[[^\]]*\])*\]"
_VALUE = rf"(?:{_SEVERAL}|{_NUMBER}|{_LIST}|\{{[^}}]*\}}|…|\w[^\s,;:()]*)"


#: Flags of --online whose names are also those of options of solvers, which have no flags.
OF_SOLVERS = ("rate", "schedule", "adaptive", "passes")

#: Advice that has other words with --online.
_ADVICE = {"give class_names, or read the": "say --label-sets and name the labels (--classes 1,2,3), or read the"}

#: What messages say before an option that should change.
_BEFORE_OPTIONS = ("raise ", "lower ", "set ", "leave out ")


#: The arguments of the command that runs.
_typed: list[str] = []


def remember_arguments(arguments: Iterable[str] | None) -> None:
    """Note what the user typed; None means the arguments of this process."""
    _typed[:] = sys.argv[1:] if arguments is None else arguments


def for_command_line(message: str, typed: Iterable[str] | None = None) -> str:
    """The message with flags instead of Python's options; `typed` are the arguments that the user gave."""
    typed = list(_typed if typed is None else typed)
    kept = sorted({text for text in typed if "=" in text or "_" in text}, key=len, reverse=True)
    verbatim = "".join(f"{re.escape(text)}|" for text in kept)
    pattern = re.compile(
        rf"(?P<verbatim>{verbatim}(?<!\w)(?<!=){_QUOTED})"
        rf"|(?<![\w'\"./=-])(?P<name>{_names_pattern(_is_online(typed))})(?:=(?P<value>{_VALUE})|(?P<alone>)(?![\w=(/-]|\.\w))"
    )
    found: set[str] = set()

    def replaced(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if match["verbatim"] is not None or (value is None and not _names_an_option(match, name)):
            return match[0]
        flag = flag_of(name)
        found.add(flag)
        return flag if value is None else _flag_with(flag, value)

    message = pattern.sub(replaced, message)
    for flag in found:  # some messages name the flag, too
        message = message.replace(f" ({flag})", "")
    for advice, flags in _ADVICE.items() if _is_online(typed) else ():
        message = message.replace(advice, flags)
    return message


def _names_an_option(match: re.Match[str], name: str) -> bool:
    """Whether a name without a value is an option, not a word such as label."""
    return "_" in name or match.string.endswith(_BEFORE_OPTIONS, 0, match.start())


def _flag_with(flag: str, value: str) -> str:
    if value in ("True", "False"):
        return flag if value == "True" else f"--no-{flag[2:]}"
    if value == "None":
        return f"no {flag}"
    if value[0] in "'\"":
        shown = re.sub(_QUOTED, lambda text: shlex.quote(text[0][1:-1]), value)
        return f"{flag} {shown}"
    stop = len(value.rstrip(".?!")) or len(value)
    return f"{flag} {value[:stop]}{value[stop:]}"


def _is_online(typed: list[str]) -> bool:
    return "--online" in typed or "online" in typed or "--model-type=online" in typed


@functools.cache
def _names_pattern(is_online: bool) -> str:
    """The options that are flags, longest first. Those of single solvers are given as NAME=VALUE and stay so."""
    from lineal.cli.cluster import ClusterOptions
    from lineal.data.options import ReadOptions
    from lineal.least_squares.options import LeastSquaresOptions
    from lineal.linear.options import TrainOptions
    from lineal.linear.search.options import PathOptions
    from lineal.online.options import OnlineOptions
    from lineal.stagewise.options import StagewiseOptions

    groups = (
        TrainOptions, PathOptions, LeastSquaresOptions, StagewiseOptions, OnlineOptions, ClusterOptions, ReadOptions,
    )  # fmt: skip
    names = {field.name for group in groups for field in dataclasses.fields(group)} - {*NO_FLAGS, "verbose"}
    names -= set() if is_online else set(OF_SOLVERS)
    return "|".join(sorted({*names, "model_type"}, key=lambda name: (-len(name), name)))
