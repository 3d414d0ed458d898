"""The files that commands read and write: checks before any work, data for a model, and where output goes."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from typer.models import ArgumentInfo

from lineal.cli.terminal import say
from lineal.errors import DataError, LinealError, ModelFileError, OptionError
from lineal.system.files import cannot_write, check_writable, identity

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset
    from lineal.data.schema import Schema

STDIN = STDOUT = "-"

#: What messages call the delimiters that are detected.
DELIMITER_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}

Command = Callable[..., Any]


@dataclass(frozen=True)
class Reads:
    """Marks, in its annotation, a parameter of a command that names a file to read.

    With `is_data`, the name may be a glob or "-". `updated_by` is the parameter of an output that may be the same file.
    """

    is_data: bool = False
    updated_by: str | None = None


@dataclass(frozen=True)
class Writes:
    """Marks, in its annotation, a parameter of a command that names a file to write.

    With `is_stream`, it may be "-", a device, a pipe or an open file. With `is_image`, Matplotlib draws it.
    """

    is_stream: bool = False
    is_image: bool = False


READS, READS_DATA = Reads(), Reads(is_data=True)
WRITES, WRITES_STREAM, WRITES_IMAGE = Writes(), Writes(is_stream=True), Writes(is_image=True)


def with_checked_files(command: Command) -> Command:
    """The command with a check of the files that its parameters name (see `Reads` and `Writes`) before it runs.

    Every output must be writable, and must not be an input or another output, whatever names they have.
    """
    signature = inspect.signature(command, eval_str=True)
    roles = {name: role for name, p in signature.parameters.items() if (role := role_of(p)) is not None}

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        given = [(name, role) for name, role in roles.items() if values[name] is not None]
        _check([(_Named(_flag(signature.parameters[name]), name, values[name]), role) for name, role in given])
        return command(**values)

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return run


def role_of(parameter: inspect.Parameter) -> Reads | Writes | None:
    """The mark in the annotation of a parameter; None if the parameter does not name a file."""
    found = [mark for mark in typing.get_args(parameter.annotation) if isinstance(mark, Reads | Writes)]
    return found[0] if found else None


def is_stdout(path: str) -> bool:
    """Whether a name stands for standard output."""
    return _open_file(path) == 1


def _open_file(path: str) -> int | None:
    """The number of the open file that a name stands for; None for other names."""
    if path in (STDOUT, "/dev/stdout"):
        return 1
    if path == "/dev/stderr":
        return 2
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/([0-9]{1,9})", path)
    return None if found is None else int(found[1])


@dataclass(frozen=True)
class _Named:
    """A file of the command line: the flag or argument, its parameter, and the path that was given."""

    flag: str
    name: str
    path: str


def _flag(parameter: inspect.Parameter) -> str:
    """The name of a parameter on the command line."""
    marks = typing.get_args(parameter.annotation)
    metavar = next((mark.metavar for mark in marks if isinstance(mark, ArgumentInfo)), None)
    return metavar or "--" + parameter.name.replace("_", "-")


def _check(files: list[tuple[_Named, Reads | Writes]]) -> None:
    taken: dict[Any, _Named | None] = {_of_stream(sys.stdout): None}
    for one, role in files:
        if isinstance(role, Writes) and not (role.is_stream and is_stdout(one.path)):
            _check_output(one, role)
            mark = identity(one.path)
            if mark is not None and mark in taken:
                other = taken[mark]
                also = "standard output" if other is None else other.flag
                raise OptionError(f"{one.flag} and {also} are the same file, {one.path}: give two")
            taken[mark] = one
    for one, role in files:
        for path in _paths(one.path, role) if isinstance(role, Reads) else ():
            mark = _of_stream(sys.stdin) if path == STDIN else identity(path)
            other = taken.get(mark)
            if mark is None or mark not in taken or (other is not None and role.updated_by == other.name):  # type: ignore[union-attr]
                continue
            writer = "standard output" if other is None else f"{other.flag} {other.path}"
            raise OptionError(f"{writer} would overwrite {one.flag} {one.path}: write to another file")


def _check_output(one: _Named, role: Writes) -> None:
    number = _open_file(one.path)
    if role.is_stream and number is not None:
        try:
            os.fstat(number)
        except OSError as error:
            raise cannot_write(one.path, error) from None
        return
    if role.is_stream and _is_special(one.path):
        return
    if one.path == STDOUT:
        raise OptionError(f"{one.flag} - : this cannot go to standard output; name a file (./- if that is its name)")
    check_writable(one.path)
    if role.is_image:
        from lineal.report.history import check_image

        check_image(one.path)


def _is_special(path: str) -> bool:
    """Whether a name is that of a device or a pipe, which is written to directly."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _paths(path: str, role: Reads) -> list[str]:
    """The files that an input stands for; the command itself reports one that does not exist."""
    if not role.is_data:
        return [path]
    from lineal.data.source import expand

    try:
        return expand(path)
    except DataError:
        return []


def _of_stream(stream: Any) -> Any:
    """The identity of the file behind a standard stream; None if it is not a regular file."""
    try:
        return None if stream is None else identity(stream.fileno())
    except (OSError, ValueError):  # not a file of the system, or closed
        return None


def read_labelled(path: str, reading: dict[str, Any], schema: Schema | None = None) -> Dataset:
    """The data of a file that must have labels; without a schema, it is training data."""
    from lineal.data.read import read

    data = read(path, schema=schema, **reading)
    if schema is None:
        note_header(path, data, reading)
    return with_labels(data, path)


def with_labels(data: Dataset, path: str) -> Dataset:
    """The data, or an error if it has no labels."""
    if data.y is None:
        is_table = data.schema is not None and data.schema.format == "table"
        raise DataError(f"{path} has no labels" + ("; name the label column of a table with --label" * is_table))
    return data


def note_header(path: str, data: Dataset, reading: dict[str, Any]) -> None:
    """Say which delimiter of a CSV file was detected, and what its first line was taken for, unless that is plain."""
    from lineal.data.formats import format_of
    from lineal.data.source import expand

    if data.schema is None or data.schema.format != "table":
        return
    delimiter, header_chosen = (data.schema.settings.get(name) for name in ("delimiter", "header_chosen"))
    if header_chosen != "guessed" and delimiter in (None, ","):
        return
    first = expand(path)[0]
    kind = reading.get("format", "auto")
    if first != STDIN and (format_of(first) if kind == "auto" else kind) == "arrow":
        return  # a converted file: what its first line was has been said before
    if delimiter not in (None, ","):
        say(f"note: cells of {path} are separated by {DELIMITER_NAMES[delimiter]}; if not, say --delimiter")
    if header_chosen != "guessed":
        return
    if data.schema.settings["header"]:
        say(f"note: the first line of {path} was taken for column names; if it is data, say --header no")
    else:
        say(
            f"note: {path} has no header, and its columns are f0, f1, …; if its first line is one, say --header yes; "
            "else --names a,b,c can name them"
        )


def columns_in(data: Any) -> dict[str, Any]:
    """What the feature columns of a table were taken for, by kind, as an entry of results; empty for other data."""
    if data.schema is None or data.schema.format != "table":
        return {}
    from lineal.data.tables.encode import Encoding

    found = Encoding.of_schema(data.schema).names_by_kind()
    return {} if "numbers" in found else {"columns": found}


def columns_text(kinds: dict[str, list[str]]) -> str:
    """The columns of a table by kind, as a person reads them."""
    shown = {
        kind: names if len(names) <= 8 else [*names[:6], f"… ({len(names)} in all)"] for kind, names in kinds.items()
    }
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in shown.items())


def unseen_in(data: Dataset) -> dict[str, int]:
    """The number of cells per column of a table whose values training did not see."""
    return {} if data.schema is None else data.schema.settings.get("unseen", {})


def warn_unseen(counts: dict[str, int]) -> None:
    """Warn about columns with values that training did not see."""
    if counts:
        listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
        say(f"warning: values that training did not see count as zeros, in these columns (number of cells): {listed}")


def save_model(model: Any, path: str) -> None:
    """Write a model. If that fails, save it in the folder for temporary files: training may have taken hours."""
    try:
        model.save(path)
    except ModelFileError:
        raise
    except LinealError as error:
        try:
            handle, elsewhere = tempfile.mkstemp(prefix="lineal-", suffix=".model")
            os.close(handle)
        except OSError:
            raise error from None
        try:
            model.save(elsewhere)
        except LinealError:
            os.unlink(elsewhere)
            raise error from None
        raise LinealError(f"{error}; the model was saved to {elsewhere} instead: move it from there") from None


def write_history(path: str, history: list[dict[str, Any]]) -> None:
    """Write the history of a fit to a JSON file."""
    from lineal.cli import show
    from lineal.system.files import whole_file

    with whole_file(path) as file:
        file.write(show.json_text(show.plain(history)).encode() + b"\n")


@contextmanager
def destination(path: str) -> Iterator[IO[bytes]]:
    """The file that output goes to: an open file ("-" is standard output), a device, a pipe, or a new file.

    A new file appears whole or not at all.
    """
    number = _open_file(path)
    if number == 1:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif number is not None or _is_special(path):
        try:
            with open(path if number is None else number, "wb", closefd=number is None) as file:
                yield file
        except BrokenPipeError:
            raise
        except OSError as error:
            raise cannot_write(path, error) from None
    else:
        from lineal.system.files import whole_file

        with whole_file(path) as file:
            yield file
