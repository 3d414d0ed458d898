"""`read` and `read_blocks`: one door for every format, which is told by option, by file name, or by the first bytes."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np

from lineal.data.dataset import Dataset, Schema
from lineal.data.finite import check_finite
from lineal.data.options import ReadOptions
from lineal.data.source import (
    BYTE_ORDER_MARK,
    STDIN,
    Path,
    Unchanged,
    cannot_read,
    display_name,
    expand,
    open_bytes,
    stdin_head,
)
from lineal.errors import DataError, OptionError, unknown_value

#: Which module reads a format. "layout" is what an Arrow file turns out to be when `convert` wrote it.
READERS = {
    "svmlight": "lineal.data.text.svmlight",
    "vw": "lineal.data.text.vw",
    "csv": "lineal.data.tables.table",
    "tsv": "lineal.data.tables.table",
    "jsonl": "lineal.data.tables.table",
    "parquet": "lineal.data.tables.table",
    "arrow": "lineal.data.tables.table",
    "npy": "lineal.data.arrays",
    "npz": "lineal.data.arrays",
    "layout": "lineal.data.binary.layout",
}

EXTENSIONS = {
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".vw": "vw", ".csv": "csv", ".tsv": "tsv",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".arrow": "arrow",
    ".feather": "arrow", ".ipc": "arrow", ".npy": "npy", ".npz": "npz",
}  # fmt: skip

MAGIC = {b"ARROW1": "arrow", b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz"}

CHOICES = {
    "format": ("auto", *(name for name in READERS if name != "layout")),
    "dtype": ("float64", "float32"),
    "categorical": ("onehot", "hash"),
    "missing": ("error", "zero", "mean", "indicator"),
    "header": ("auto", "yes", "no"),
    "mapped": ("auto", "yes", "no"),
}

_TABLE = {"label", "weight", "drop", "categorical", "missing", "bits"}

#: Options that mean something for a format, beside those that always do.
APPLICABLE = {
    "svmlight": {"index_base", "n_features", "max_bad_lines"},
    "vw": {"bits", "max_bad_lines"},
    "csv": {*_TABLE, "delimiter", "header", "max_bad_lines"},
    "tsv": {*_TABLE, "delimiter", "header", "max_bad_lines"},
    "jsonl": {*_TABLE, "max_bad_lines"},
    "parquet": _TABLE,
    "arrow": _TABLE,
    "npy": {"mapped"},
    "layout": {"trusted", "mapped"},
}
ALWAYS = {"format", "dtype", "n_jobs", "block_bytes", "labels"}

#: Options that a schema has decided, by its format: other values contradict the model.
DECIDED = {
    "table": ("label", "weight", "drop", "categorical", "missing", "bits"),
    "svmlight": ("index_base", "n_features", "bits"),
    "vw": ("bits",),
    "array": ("n_features",),
}

#: Columns are numbered by int32.
MAX_FEATURES = 2**31 - 1

#: Bytes that sniffing looks at.
HEAD = 1 << 16


def read(path: Path | Sequence[Path], *, schema: Schema | None = None, **options: Any) -> Dataset:
    """Read a file, a glob or a list of files of one format, or "-" (standard input) as a `Dataset`.

    Parameters
    ----------
    path : what to read; .gz, .bz2 and .zst files are decompressed.
    schema : how the training data was encoded (`Dataset.schema`): the new rows get the same columns.
    options : the fields of `lineal.data.options.ReadOptions`.

    Every value of X is finite, and there is at least one row.
    """
    wanted = schema
    reader, paths, settings, schema = prepare(path, schema, options)
    with Unchanged(paths), enough_memory(paths):
        data = reader.read(paths, settings, schema)
    data = _as_asked(data.in_columns_of(wanted), options, settings)
    if not len(data):
        raise DataError(f"{display_name(paths[0])} has no rows")
    if reader.__name__ != READERS["layout"]:  # that was checked when it was written
        check_finite(data.X, data.feature_names, name=_shown(paths))
    return data


def read_blocks(path: Path | Sequence[Path], *, schema: Schema | None = None, **options: Any) -> Iterator[Dataset]:
    """The same rows as `read`, in blocks of about `block_bytes`: for files larger than memory.

    All blocks have the same columns and the same schema; finding those can take a first pass over the files.
    """
    wanted = schema
    reader, paths, settings, schema = prepare(path, schema, options)
    blocks = (block.in_columns_of(wanted) for block in reader.read_blocks(paths, settings, schema))
    return _checked_blocks(reader, paths, settings, unchanged_blocks(blocks, paths), options)


def unchanged_blocks(blocks: Iterator[Dataset], paths: list[str]) -> Iterator[Dataset]:
    """The same blocks, each given out only if the files are still what they were."""
    with Unchanged(paths) as files, enough_memory(paths):
        for block in blocks:
            files.check()
            yield block
            del block


@contextmanager
def enough_memory(paths: list[str]) -> Iterator[None]:
    """A context in which a lack of memory is an error that names the files."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            f"not enough memory to read {_shown(paths)}: use dtype='float32', or fewer rows or columns, or convert it "
            "on a larger machine"
        ) from error


def _checked_blocks(
    reader: Any, paths: list[str], settings: ReadOptions, blocks: Iterator[Dataset], options: dict[str, Any]
) -> Iterator[Dataset]:
    row = 0
    for block in blocks:
        if not len(block):
            continue
        block = _as_asked(block, options, settings)
        if reader.__name__ != READERS["layout"]:
            check_finite(block.X, block.feature_names, row, _shown(paths))
        row += len(block)
        yield block
    if row == 0:
        raise DataError(f"{display_name(paths[0])} has no rows")


def _shown(paths: list[str]) -> str:
    """The files in a message whose rows are counted over all of them."""
    return display_name(paths[0]) if len(paths) == 1 else f"{paths[0]} … {paths[-1]}"


def _as_asked(data: Dataset, options: dict[str, Any], settings: ReadOptions) -> Dataset:
    """Arrays and layouts keep the precision that they are stored in, unless the caller named another."""
    if not settings.labels:
        data = replace(data, y=None, weights=None, class_names=None)
    asked = options.get("dtype")
    if asked is None or data.X.dtype == np.dtype(asked):
        return data
    with np.errstate(over="ignore"):
        return replace(data, X=data.X.astype(asked))


def check_options(options: dict[str, Any]) -> ReadOptions:
    """`ReadOptions` from keywords, with the nearest name where one is unknown."""
    known = [field.name for field in fields(ReadOptions)]
    for name, value in options.items():
        if name not in known:
            raise unknown_value("option", name, known)
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown_value(name, value, CHOICES[name])
    settings = ReadOptions(**options)
    if isinstance(settings.index_base, int):
        settings = replace(settings, index_base=str(settings.index_base))
    bounds = (("bits", 1, 30), ("block_bytes", 1, None), ("max_bad_lines", 0, None), ("n_features", 1, MAX_FEATURES))
    for name, low, high in bounds:
        value = getattr(settings, name)
        if name == "n_features" and value is None:
            continue
        if not isinstance(value, int) or value < low or (high is not None and value > high):
            span = f"from {low}" + (f" to {high}" if high else " up")
            raise OptionError(f"{name}={value!r} must be a whole number {span}")
    _refuse_two_roles(settings)
    return settings


def _refuse_two_roles(settings: ReadOptions) -> None:
    """A column is the label, or the weight, or left out."""
    dropped = [part.strip() for part in (settings.drop or "").split(",") if part.strip()]
    for name in ("label", "weight"):
        value = getattr(settings, name)
        if value and str(value) in dropped:
            raise OptionError(f"{name}={value!r} is also in drop={settings.drop!r}: a column cannot be both")
    if settings.label and settings.label == settings.weight:
        raise OptionError(f"label={settings.label!r} is also the weight: a column cannot be both")


def prepare(
    path: Path | Sequence[Path], schema: Schema | None, options: dict[str, Any], streamed: bool = False
) -> tuple[Any, list[str], ReadOptions, Schema | None]:
    """The reader, the files and the settings for what a caller said; `streamed` svmlight text takes `bits`, too."""
    settings = check_options(options)
    paths = expand(path)
    kinds = {file: settings.format if settings.format != "auto" else format_of(file) for file in paths}
    kind = kinds[paths[0]]
    for file, other in kinds.items():
        if other != kind:
            raise DataError(f"{paths[0]} is {kind}, but {file} is {other}: read files of one format at a time")
    if kind == "arrow" and paths[0] != STDIN:
        kind = _layout_or_table(paths)
    given = {name: value for name, value in options.items() if value is not None}
    idle = {"bits"} if streamed and kind == "svmlight" else set()
    _refuse_idle({name: value for name, value in given.items() if name not in idle}, kind)
    if schema is not None:
        settings = _follow(schema, settings, given, kind)
        if schema.format == "array" and kind in ("svmlight", "vw"):
            settings, schema = replace(settings, n_features=schema.n_features), None
    settings = replace(settings, format="arrow" if kind == "layout" else kind)
    return importlib.import_module(READERS[kind]), paths, settings, schema


def _refuse_idle(given: dict[str, Any], kind: str) -> None:
    """No option is ignored: one that was given must mean something for the format, even where it says the default."""
    for name, value in given.items():
        if name not in ALWAYS | APPLICABLE.get(kind, set()):
            shown = "converted" if kind == "layout" else kind
            raise OptionError(f"{name}={value!r} does not apply to {shown} files")


def _follow(schema: Schema, settings: ReadOptions, given: dict[str, Any], kind: str) -> ReadOptions:
    """What training decided stays decided: contradictions are refused, the precision of a table is taken over."""
    if schema.format == "array" and kind == "svmlight" and settings.index_base == "auto":
        raise OptionError(
            "index_base='auto' cannot be told from these rows alone, as the model was trained on arrays: "
            "say index_base=0 or index_base=1 (--index-base), whichever the first column has in this file"
        )
    for name in DECIDED.get(schema.format, ()):
        if name in given and not _agrees(schema, name, given[name]):
            raise OptionError(f"{name}={given[name]!r} cannot be changed: {_decided(schema, name)}")
    precision = schema.settings.get("dtype") if schema.format == "table" else None
    return settings if "dtype" in given or precision not in CHOICES["dtype"] else replace(settings, dtype=precision)


def _decided(schema: Schema, name: str) -> str:
    if schema.format == "table":
        return "the schema of the training table decides it"
    value = schema.n_features if name == "n_features" else schema.settings.get(name)
    return f"the model was trained with {name}={value}"


def _agrees(schema: Schema, name: str, value: Any) -> bool:
    decided, names = schema.settings.get(name), schema.settings.get("names") or []
    if name == "n_features":
        return value == schema.n_features
    if name == "index_base":
        return str(value) in ("auto", str(decided)) or str(value) not in ("0", "1")  # the reader refuses other texts
    if name == "drop":
        from lineal.data.tables.encode import Encoding

        used = set(Encoding.of_schema(schema).features())
        return used.isdisjoint(part.strip() for part in str(value).split(","))
    if name in ("label", "weight") and re.fullmatch(r"-?\d+", str(value)) and value not in names:
        return -len(names) <= int(value) < len(names) and names[int(value)] == decided
    return value == decided


def _layout_or_table(paths: list[str]) -> str:
    from lineal.data.binary.layout import is_layout

    for file in paths:
        _refuse_cut_arrow(file)
    kinds = {is_layout(file) for file in paths}
    if len(kinds) > 1:
        raise DataError("some of these Arrow files were converted by lineal and some are ordinary tables")
    return "layout" if kinds.pop() else "arrow"


def _refuse_cut_arrow(path: str) -> None:
    """An Arrow file begins and ends with the same bytes; before the last ones is what tells where everything is."""
    magic = b"ARROW1"
    if not os.path.isfile(path):
        return
    try:
        with open(path, "rb") as file:
            if file.read(len(magic)) != magic:
                return  # a stream of record batches, or compressed
            file.seek(-len(magic), os.SEEK_END)
            if file.tell() < 2 * len(magic) or file.read() != magic:
                raise DataError(f"{path} is cut or damaged: an Arrow file ends with {magic.decode()}")
    except OSError as error:
        raise cannot_read(path, error) from error


def format_of(path: str) -> str:
    """The format of a file, by its name or else by its first bytes."""
    stem = re.sub(r"\.(gz|bz2|zstd?)$", "", path.lower())
    extension = os.path.splitext(stem)[1]
    return EXTENSIONS.get(extension) or sniff(_head(path), display_name(path))


def sniff(head: bytes, name: str) -> str:
    """The format that the first bytes tell."""
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            return kind
    text = head.removeprefix(BYTE_ORDER_MARK).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    line = next((line for line in lines if not re.fullmatch(r"[-+.\deE]+", line)), "".join(lines[:1]))
    if not line:
        raise DataError(f"{name} is empty" if not head else f"{name}: cannot tell its format; say format=…")
    if line.startswith("{"):
        return "jsonl"
    if re.match(r"([-+.\deE,]+\s+)?(qid:\d+\s+)?\d+:[-+.\deE]+(\s|$)", line):
        return "svmlight"
    if re.match(r"(\S+\s+)*('?\S*)?\|", line) and (line.startswith("|") or " |" in line or "'" in line.split("|")[0]):
        return "vw"
    if re.search(r"[,;\t|]", line):
        return "tsv" if "\t" in line and "," not in line and ";" not in line else "csv"
    raise DataError(f"{name}: cannot tell its format from its first line; say format=…")


def _head(path: str) -> bytes:
    """The first bytes, decompressed; standard input is left as it was."""
    if path != STDIN:
        if not os.path.isfile(path):
            raise DataError(f"{path} is a pipe, and looking at its first bytes would lose them: say format=…")
        with open_bytes(path) as stream:
            return stream.read(HEAD)
    return stdin_head(HEAD)
