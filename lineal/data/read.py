"""`read` and `read_blocks`: the way from files of any format to a `Dataset`."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from lineal.core.inputs import MAX_FEATURES
from lineal.data import formats, ngrams
from lineal.data.dataset import Dataset, check_finite
from lineal.data.options import ReadOptions, listed
from lineal.data.parts import Part, Piece, pieces_of, whole_files
from lineal.data.schema import Schema
from lineal.data.source import STDIN, Path, Unchanged, cannot_read, display_name, expand
from lineal.errors import DataError, OptionError, unknown_value

#: What categories become.
LEVELS = ("onehot", "hash")

CHOICES = {
    "format": formats.NAMES,
    "dtype": ("float64", "float32"),
    "levels": LEVELS,
    "missing": ("indicator", "mean", "zero", "error"),
    "scale": ("none", "standard"),
    "header": ("auto", "yes", "no"),
    "mapped": ("auto", "yes", "no"),
}

#: For each format of a schema, the options that the schema fixes: other values contradict the model.
FIXED = {
    "table": (*sorted(formats.TABLE_OPTIONS - {"id"}), "na"),
    "svmlight": ("index_base", "n_features", "bits"),
    "vw": ("bits", "ngram", "skips"),
    "array": ("n_features",),
}


class Reader(Protocol):
    """What the module of a reader provides. With a schema, rows are encoded as that schema says."""

    def read(self, paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Dataset:
        """All rows of the files."""

    def read_blocks(self, paths: list[str], options: ReadOptions, schema: Schema | None = None) -> Iterator[Dataset]:
        """The same rows in blocks of about `options.block_bytes`, in bounded memory."""


class Plan(NamedTuple):
    """How some files are read: their format ("layout" for converted files), the checked options, the schema to follow.

    `wanted` is the schema that the caller gave, which may want only some of the columns that the reader makes.
    `part` is the part of the files that is read, and `pieces` are what belongs to it.
    """

    format: str
    paths: list[str]
    options: ReadOptions
    schema: Schema | None
    wanted: Schema | None
    pieces: list[Piece]
    part: Part | None = None

    @property
    def reader(self) -> Reader:
        """The reader of this format."""
        return cast(Reader, importlib.import_module(formats.FORMATS[self.format].reader))

    @property
    def is_layout(self) -> bool:
        """Whether the files are converted ones, whose values were checked when they were written."""
        return self.format == "layout"

    @property
    def shown(self) -> str:
        """What messages call the files where rows are counted over all of them."""
        return display_name(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} … {self.paths[-1]}"

    def cut(self, part: Part) -> Plan:
        """How a part of the files is read."""
        pieces = pieces_of(self.paths, self.format, part)
        return self._replace(paths=[piece.path for piece in pieces], pieces=pieces, part=part)

    def no_rows(self) -> DataError:
        """The error for files without any row."""
        return DataError(f"{display_name(self.paths[0])} has no rows")


def read(path: Path | Sequence[Path], *, schema: Schema | None = None, **options: Any) -> Dataset:
    """Read a file, a glob, a list of files of one format, or "-" (standard input) as a `Dataset`.

    Every value of X is finite, and there is at least one row.

    Parameters
    ----------
    path : what to read; .gz, .bz2 and .zst files are decompressed.
    schema : how the training data was encoded (`Dataset.schema`): the new rows get the same columns.
    options : the fields of `lineal.data.options.ReadOptions`.
    """
    plan = make_plan(path, schema, options)
    with Unchanged(plan.paths), enough_memory(plan):
        data = plan.reader.read(plan.paths, plan.options, plan.schema)
    return _whole(data, plan, options.get("dtype"))


def read_first(path: Path | Sequence[Path], most_bytes: int, **options: Any) -> tuple[Dataset, bool]:
    """The first rows of tables, of about `most_bytes` together, and whether there are more; other formats whole."""
    plan = make_plan(path, None, options)
    is_cut = False
    with Unchanged(plan.paths), enough_memory(plan):
        if formats.FORMATS[plan.format].reader == formats.FORMATS["csv"].reader:
            from lineal.data.tables import reader

            data, is_cut = reader.read_first(plan.paths, plan.options, None, most_bytes)
        else:
            data = plan.reader.read(plan.paths, plan.options, None)
    return _whole(data, plan, options.get("dtype")), is_cut


def _whole(data: Dataset, plan: Plan, dtype: str | None) -> Dataset:
    """What was read, as it was asked for, after a check of its values."""
    data = _as_requested(data.in_columns_of(plan.wanted), plan, dtype)
    if not len(data):
        raise plan.no_rows()
    if not plan.is_layout:
        check_finite(data.X, data.feature_names, name=plan.shown)
    return data


def read_blocks(path: Path | Sequence[Path], *, schema: Schema | None = None, **options: Any) -> Iterator[Dataset]:
    """Read the same rows as `read` in blocks of about `block_bytes`: for files larger than memory.

    All blocks have the same columns and the same schema. Finding them can take a first pass over the files.
    """
    plan = make_plan(path, schema, options)
    blocks = (block.in_columns_of(schema) for block in plan.reader.read_blocks(plan.paths, plan.options, plan.schema))
    return _checked_blocks(plan, unchanged_blocks(blocks, plan), options.get("dtype"))


def unchanged_blocks(blocks: Iterator[Dataset], plan: Plan) -> Iterator[Dataset]:
    """Yield the blocks, each one only if no other process has changed the files meanwhile."""
    with Unchanged(plan.paths) as files, enough_memory(plan):
        for block in blocks:
            files.check()
            yield block
            del block


@contextmanager
def enough_memory(plan: Plan) -> Iterator[None]:
    """A context in which a lack of memory becomes an error that names the files."""
    try:
        yield
    except MemoryError as error:
        raise DataError(
            f"not enough memory to read {plan.shown}: use dtype='float32', or fewer rows or columns, or convert it on "
            "a larger machine"
        ) from error


def _checked_blocks(plan: Plan, blocks: Iterator[Dataset], dtype: str | None) -> Iterator[Dataset]:
    row = 0
    for block in blocks:
        if not len(block):
            continue
        block = _as_requested(block, plan, dtype)
        if not plan.is_layout:
            check_finite(block.X, block.feature_names, row, plan.shown)
        row += len(block)
        yield block
    if row == 0:
        raise plan.no_rows()


def _as_requested(data: Dataset, plan: Plan, dtype: str | None) -> Dataset:
    """The data without labels where none are wanted, in the precision `dtype`; None keeps the stored precision."""
    if not plan.options.labels:
        data = replace(data, y=None, weights=None, class_names=None)
    if dtype is None or data.X.dtype == np.dtype(dtype):
        return data
    with np.errstate(over="ignore"):
        return replace(data, X=data.X.astype(dtype))


# --- from what the caller gave to a plan


def make_plan(
    path: Path | Sequence[Path], schema: Schema | None, given: dict[str, Any], streamed: bool = False
) -> Plan:
    """Check the options, find the files and their format. With `streamed`, svmlight text also takes `bits`."""
    given = renamed(given)
    options = check_options(given)
    paths = expand(path)
    kinds = {file: options.format if options.format != "auto" else formats.format_of(file) for file in paths}
    kind = kinds[paths[0]]
    for file, other in kinds.items():
        if other != kind:
            raise DataError(f"{paths[0]} is {kind}, but {file} is {other}: read files of one format at a time")
    if kind == "arrow" and paths[0] != STDIN:
        kind = _layout_or_table(paths)
    given = {name: value for name, value in given.items() if value is not None}
    _refuse_inapplicable(given, kind, allowed={"bits"} if streamed and kind == "svmlight" else set())
    followed = schema
    if schema is not None:
        options = _follow(schema, options, given, kind)
        if schema.format == "array" and kind in ("svmlight", "vw"):
            options, followed = replace(options, n_features=schema.n_features), None
    options = replace(options, format="arrow" if kind == "layout" else kind)
    return Plan(kind, paths, options, followed, schema, whole_files(paths))


def check_options(given: dict[str, Any]) -> ReadOptions:
    """`ReadOptions` from keywords; the error for an unknown name suggests the nearest one."""
    known = [field.name for field in fields(ReadOptions)]
    given = renamed(given)
    for name, value in given.items():
        if name not in known:
            raise unknown_value("option", name, known)
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown_value(name, value, CHOICES[name])
    options = ReadOptions(**given)
    if isinstance(options.index_base, int):
        options = replace(options, index_base=str(options.index_base))
    for name, value, low, high in (
        ("bits", options.bits, 1, 30),
        ("block_bytes", options.block_bytes, 1, None),
        ("max_bad_lines", options.max_bad_lines, 0, None),
        ("rare", 0 if options.rare is None else options.rare, 0, None),
        ("n_features", 1 if options.n_features is None else options.n_features, 1, MAX_FEATURES),
    ):
        if not isinstance(value, int) or value < low or (high is not None and value > high):
            span = f"of at least {low}" if high is None else f"from {low} to {high}"
            raise OptionError(f"{name}={value!r} must be an integer {span}")
    ngrams.of_options(options)
    _refuse_two_roles(options)
    return options


def renamed(given: dict[str, Any]) -> dict[str, Any]:
    """Options under their present names: `ignore` was `drop`, and `levels` was `categorical`."""
    found = dict(given)
    if "drop" in found and "ignore" not in found:
        found["ignore"] = found.pop("drop")
    if found.get("categorical") in LEVELS and "levels" not in found:
        found["levels"] = found.pop("categorical")
    return found


def _refuse_two_roles(options: ReadOptions) -> None:
    """Refuse a column with two roles: it can be the label, or the weight, or hold text, say."""
    owner: dict[str, str] = {}
    for role in ("label", "weight", "id", "ignore", "text", "categorical", "numeric"):
        given = getattr(options, role)
        for name in listed(None if given is None else str(given)):
            if (other := owner.setdefault(name, role)) != role:
                raise OptionError(f"{role}={given!r}: the column {name!r} is also the {other}, and cannot be both")


def _refuse_inapplicable(given: dict[str, Any], kind: str, allowed: set[str]) -> None:
    """Refuse an option that does not apply to the format, even where it has its default value."""
    applicable = formats.ALWAYS | formats.FORMATS[kind].options | allowed
    for name, value in given.items():
        if name not in applicable:
            shown = "converted" if kind == "layout" else kind
            raise OptionError(f"{name}={value!r} does not apply to {shown} files")


def _follow(schema: Schema, options: ReadOptions, given: dict[str, Any], kind: str) -> ReadOptions:
    """Refuse options that contradict the schema; take over the precision of a table."""
    if schema.format == "array" and kind == "svmlight" and options.index_base == "auto":
        raise OptionError(
            "index_base='auto' cannot be told from these rows alone, because the model was trained on arrays: say "
            "index_base=0 or index_base=1 (--index-base), the number that the first column has in this file"
        )
    for name in FIXED.get(schema.format, ()):
        if name in given and not _agrees(schema, name, given[name]):
            raise OptionError(f"{name}={given[name]!r} cannot be changed: {_why_fixed(schema, name)}")
    precision = schema.settings.get("dtype") if schema.format == "table" else None
    return options if "dtype" in given or precision not in CHOICES["dtype"] else replace(options, dtype=precision)


def _why_fixed(schema: Schema, name: str) -> str:
    if schema.format == "table":
        return "the schema of the training table decides it"
    return f"the model was trained with {name}={_fixed(schema, name)}"


def _fixed(schema: Schema, name: str) -> Any:
    """The value of an option that the schema fixes."""
    name = "categorical" if name == "levels" else name  # what model files call it
    if name in ("ngram", "skips"):
        return ngrams.of_settings(schema.settings).options()[name]
    return schema.n_features if name == "n_features" else schema.settings.get(name)


def _agrees(schema: Schema, name: str, value: Any) -> bool:
    """Whether the value of an option says the same as the schema."""
    if schema.format == "table" and name in ("ngram", "skips"):
        return _agree_texts(schema, name, value)
    fixed, names = _fixed(schema, name), schema.settings.get("names") or []
    if name == "ngram":
        return ngrams.parse(value).options()[name] == fixed
    if name == "index_base":
        return str(value) in ("auto", str(fixed)) or str(value) not in ("0", "1")  # the reader refuses other texts
    if name in ("ignore", "text", "categorical", "numeric"):
        from lineal.data.tables.encode import Encoding

        kinds = {column: one.kind for column, one in Encoding.of_schema(schema).features().items()}
        wanted = {"ignore": None, "text": "text", "categorical": "category", "numeric": "number"}[name]
        return all(kinds.get(column) == wanted for column in listed(str(value)))
    if name == "na":
        return ["", *listed(value)] == fixed
    if name in ("label", "weight") and re.fullmatch(r"-?\d+", str(value)) and value not in names:
        return -len(names) <= int(value) < len(names) and names[int(value)] == fixed
    return value == fixed


def _agree_texts(schema: Schema, name: str, value: Any) -> bool:
    """Whether the columns of text were cut into such n-grams."""
    params = {one["name"]: one["terms"]["params"] for one in schema.settings["columns"] if one["kind"] == "text"}
    if name == "skips":
        return all(one["skips"] == int(value) for one in params.values() if one["ngram_range"][1] > 1)
    wanted = ngrams.parse(value)
    given = dict(wanted.by_name)
    return all(one["ngram_range"][1] == given.get(column, wanted.everywhere) for column, one in params.items())


def _layout_or_table(paths: list[str]) -> str:
    from lineal.data.binary.layout import is_layout

    for file in paths:
        _refuse_truncated_arrow(file)
    kinds = {is_layout(file) for file in paths}
    if len(kinds) > 1:
        raise DataError("some of these Arrow files were converted by lineal and some are ordinary tables")
    return "layout" if kinds.pop() else "arrow"


def _refuse_truncated_arrow(path: str) -> None:
    """Refuse an Arrow file whose end is missing, with the description of what is where."""
    magic = formats.ARROW_MAGIC
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
