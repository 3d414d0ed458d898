"""Files that commands read and write: data for a model, places that can be written to."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import tempfile
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from typer.models import ArgumentInfo

from lineal.cli.messages import say
from lineal.errors import DataError, LinealError, ModelFileError, OptionError
from lineal.files import check_writable, identity

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset, Schema
    from lineal.model import Model

STDIN = STDOUT = "-"

Command = Callable[..., Any]


@dataclass(frozen=True)
class Reads:
    """Marks a parameter of a command that names a file to read, in its annotation.

    With `is_data` the name may be a glob or "-". `updated_by` is the parameter of an output that may be the same file.
    """

    is_data: bool = False
    updated_by: str | None = None


@dataclass(frozen=True)
class Writes:
    """Marks a parameter of a command that names a file to write, in its annotation.

    With `is_stream` it may be "-", a device or a pipe. With `is_image` it is drawn by Matplotlib.
    """

    is_stream: bool = False
    is_image: bool = False


READS, READS_DATA = Reads(), Reads(is_data=True)
WRITES, WRITES_STREAM, WRITES_IMAGE = Writes(), Writes(is_stream=True), Writes(is_image=True)


def with_checked_files(command: Command) -> Command:
    """The command, which begins with a check of the files that its parameters name (see `Reads` and `Writes`).

    Every output must be writable, and must be none of the inputs and no other output, under whatever name.
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
    """What a parameter's annotation says about the file that it names; None where it names none."""
    found = [mark for mark in typing.get_args(parameter.annotation) if isinstance(mark, Reads | Writes)]
    return found[0] if found else None


def is_stdout(path: str) -> bool:
    """Whether a name stands for standard output."""
    return path in (STDOUT, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


@dataclass(frozen=True)
class _Named:
    """A file of the command line: the flag or argument, its parameter, and the path that was given."""

    flag: str
    name: str
    path: str


def _flag(parameter: inspect.Parameter) -> str:
    """What a parameter is called on the command line."""
    marks = typing.get_args(parameter.annotation)
    metavar = next((mark.metavar for mark in marks if isinstance(mark, ArgumentInfo)), None)
    return metavar or "--" + parameter.name.replace("_", "-")


def _check(files: list[tuple[_Named, Reads | Writes]]) -> None:
    taken: dict[Any, _Named | None] = {_of_stream(sys.stdout): None}
    for one, role in files:
        if isinstance(role, Writes) and not is_stdout(one.path):
            _check_output(one.path, role)
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


def _check_output(path: str, role: Writes) -> None:
    is_special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if role.is_stream and is_special:
        return
    check_writable(path)
    if role.is_image:
        from lineal.report.history import check_image

        check_image(path)


def _paths(path: str, role: Reads) -> list[str]:
    """The files that an input stands for; what does not exist is for the command to complain about."""
    if not role.is_data:
        return [path]
    from lineal.data.source import expand

    try:
        return expand(path)
    except DataError:
        return []


def _of_stream(stream: Any) -> Any:
    """The identity of the file behind a standard stream; None where it is no regular file."""
    try:
        return None if stream is None else identity(stream.fileno())
    except (OSError, ValueError):  # a stream of a test, or one that was closed
        return None


def schema_of(model: Model) -> Schema:
    """How files for this model are read: as its training file was, or as plain columns where it came from arrays."""
    from lineal.data.dataset import Schema

    return model.schema or Schema("array", model.n_features)


def read_labelled(path: str, schema: Schema | None, reading: dict[str, Any]) -> Dataset:
    """The data of a file that must have labels."""
    from lineal.data.read import read

    data = read(path, schema=schema, **reading)
    if data.y is None:
        is_table = data.schema is not None and data.schema.format == "table"
        raise DataError(f"{path} has no labels" + ("; name the label column of a table with --label" * is_table))
    return data


def unseen_in(data: Dataset) -> dict[str, int]:
    """How many cells of each column of a table hold what training did not see."""
    return {} if data.schema is None else data.schema.settings.get("unseen", {})


def warn_unseen(counts: dict[str, int]) -> None:
    """Say which columns had such cells."""
    if counts:
        listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
        say(f"warning: values that training did not see count as zeros, in columns (number of cells): {listed}")


def save_model(model: Any, path: str) -> None:
    """Write a model. Where that fails, put it into the folder for temporary files: it may have taken hours to train."""
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
    """How a model came about, as a JSON file."""
    from lineal.cli import show
    from lineal.files import whole_file

    with whole_file(path) as file:
        file.write(show.json_text(show.plain(history)).encode() + b"\n")


@contextmanager
def destination(path: str) -> Iterator[IO[bytes]]:
    """Where output goes: standard output for "-", a device or pipe as it is, else a file that appears whole."""
    if is_stdout(path):
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif os.path.exists(path) and not os.path.isfile(path):
        try:
            with open(path, "wb") as file:
                yield file
        except BrokenPipeError:
            raise
        except OSError as error:
            raise LinealError(f"cannot write {path}: {error.strerror or error}") from None
    else:
        from lineal.files import whole_file

        with whole_file(path) as file:
            yield file
