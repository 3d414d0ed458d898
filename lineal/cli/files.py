"""Files that commands read and write: data for a model, places that can be written to."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from lineal.cli.shell import say
from lineal.errors import DataError, LinealError

if TYPE_CHECKING:
    from lineal.data.dataset import Dataset, Schema
    from lineal.model import Model

STDOUT = "-"


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


def check_writable(path: str) -> None:
    """Fail before the work, not after it, where `path` cannot become a file."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise LinealError(f"cannot write {path}: it is {'a folder' if os.path.isdir(path) else 'no regular file'}")
    folder = os.path.dirname(os.path.realpath(path))
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise LinealError(f"cannot write {path}: {error.strerror or error}") from None


def write_history(path: str, history: list[dict[str, Any]]) -> None:
    """How a model came about, as a JSON file."""
    from lineal.cli import show
    from lineal.files import whole_file

    with whole_file(path) as file:
        file.write(json.dumps(show.plain(history)).encode() + b"\n")


@contextmanager
def destination(path: str) -> Iterator[IO[bytes]]:
    """Where output goes: standard output for "-", a device or pipe as it is, else a file that appears whole."""
    if path == STDOUT:
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
