"""JSON lines as record batches: pyarrow parses a chunk; where it will not, each line is looked at once in Python."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from lineal.data.source import NEWLINE, Chunk
from lineal.data.tables.spelled_labels import INEXACT, mixed, whole_kind
from lineal.errors import DataError, ParseError

#: What messages call a value of each kind.
WORDS = {"number": "a number", "string": "text", "boolean": "true or false", "list": "a list", "object": "an object"}


def _none(name: str) -> bool:
    return False


@dataclass
class JsonState:
    """What is known over the lines of one read.

    Attributes
    ----------
    ignored : tells whether a column is of no use, so that its values may be anything.
    numbers : columns that were numbers in training.
    label_of : the label column of a table with these columns, of the first lines; its whole numbers are read exactly.
    kinds : what each column ("a"), field of an object ("a.b") and list's items ("a[]") have been so far.
    """

    ignored: Callable[[str], bool] = _none
    numbers: frozenset[str] = frozenset()
    label_of: Callable[[list[str]], str | None] | None = None
    label: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)

    def find_label(self, names: list[str]) -> str | None:
        """The label column: decided by the columns of the first lines."""
        if self.label_of is not None:
            self.label, self.label_of = self.label_of(names), None
        return self.label

    def contradiction(self, found: list[tuple[str, str]]) -> tuple[str, str, str] | None:
        """The first (column, kind found, kind expected) that does not go with the lines before; else note the kinds."""
        kinds: dict[str, str] = {}
        for name, kind in found:
            expected = self.kinds.get(name) or kinds.setdefault(name, kind)
            if kind == expected and kind == "string" and name in self.numbers:
                expected = "number"
            if kind != expected:
                return name, kind, expected
        self.kinds |= kinds
        return None


@dataclass(frozen=True)
class _Bad:
    """A malformed line: its number in the chunk, the column in it, what is wrong."""

    line: int
    column: int
    found: str
    expected: str = "one a line"


def parse(chunk: Chunk, path: str, allowed: int, state: JsonState | None = None) -> tuple[Any, int]:
    """The objects of a chunk, one a line, as a record batch, and how many malformed lines were skipped.

    The batch is None where there is nothing but blank lines. More malformed lines than `allowed` are an error.
    """
    state = state or JsonState()
    view = chunk.data.data
    starts, ends, lines = _lines(view)
    if not len(lines):
        return None, 0
    if _all_open_an_object(view, starts[lines], ends[lines]):
        try:
            batch = _read(view)
            # pyarrow takes objects that span lines, and several on one; cut elsewhere, the same file would fail
            if len(batch) == len(lines) and state.contradiction(list(_kinds_of_batch(batch, state))) is None:
                return _with_exact_label(batch, (bytes(view[starts[i] : ends[i]]) for i in lines), state), 0
        except pa.ArrowInvalid:
            pass
    spans = [(int(line), bytes(view[starts[line] : ends[line]])) for line in lines]
    good, bad = _classify(spans, state)
    batch, refused, read = _read_good(good, path)
    if batch is not None:
        batch = _with_exact_label(batch, read, state)
    bad = sorted(bad + refused, key=lambda one: one.line)
    if len(bad) > allowed:
        first = bad[max(allowed, 0)]
        raise ParseError(path, chunk.first_line + first.line, first.column, first.found, first.expected)
    return batch, len(bad)


def _with_exact_label(batch: Any, lines: Iterable[bytes], state: JsonState) -> Any:
    """The same batch; whole-number labels that pyarrow rounded to doubles are read once more, by Python."""
    name = state.find_label(batch.schema.names)
    if name not in batch.schema.names:
        return batch
    column = batch.column(name)
    if not pa.types.is_floating(column.type) or not pc.any(pc.greater_equal(pc.abs(column), float(INEXACT))).as_py():
        return batch
    labels = [json.loads(line).get(name) for line in lines]
    large = [label for label in labels if isinstance(label, int) and abs(label) >= INEXACT]
    if not large:
        return batch
    if any(isinstance(label, float) and not (label.is_integer() and abs(label) < INEXACT) for label in labels):
        raise mixed(str(name))
    whole = [None if label is None else int(label) for label in labels]
    kind = whole_kind(min([0, *filter(None, whole)]), max([0, *filter(None, whole)]), str(name))
    exact = pa.array(whole, pa.uint64() if kind == "unsigned" else pa.int64())
    return batch.set_column(batch.schema.get_field_index(name), name, exact)


def _read_good(good: list[tuple[int, bytes]], path: str) -> tuple[Any, list[_Bad], list[bytes]]:
    """The lines that Python takes; those that pyarrow alone refuses (half a surrogate pair) are tried one by one.

    The batch, the lines that were refused, and those that were read.
    """
    if not good:
        return None, [], []
    try:
        lines = [line for _, line in good]
        return _read(memoryview(b"".join(lines))), [], lines
    except pa.ArrowInvalid:
        pass
    kept, bad = [], []
    for number, line in good:
        try:
            _read(memoryview(line))
            kept.append(line)
        except pa.ArrowInvalid as error:
            what = str(error).removeprefix("JSON parse error: ").partition(" in row ")[0].rstrip(".")
            bad.append(_Bad(number, 1, f"no JSON object ({what})"))
    try:
        return _read(memoryview(b"".join(kept))) if kept else None, bad, kept
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from None


def _classify(spans: list[tuple[int, bytes]], state: JsonState) -> tuple[list[tuple[int, bytes]], list[_Bad]]:
    """The good lines, with nothing in columns that are ignored, and the bad ones."""
    good, bad = [], []
    for number, line in spans:
        text = line.rstrip().decode("utf-8", "surrogateescape")  # other encodings are refused later, by column
        try:
            value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_int=_finite_int)
        except json.JSONDecodeError as error:
            column = 1 + len(text[: error.pos].encode("utf-8", "surrogateescape"))
            bad.append(_Bad(number, column, f"no JSON object ({error.msg})"))
            continue
        except (ValueError, RecursionError) as error:
            bad.append(_Bad(number, 1, f"no JSON object ({error})"))
            continue
        if not isinstance(value, dict):
            shown = "null" if value is None else WORDS[_kind(value)]
            bad.append(_Bad(number, 1, f"no JSON object but {shown}"))
            continue
        useless = [name for name in value if state.ignored(name)]
        for name in useless:
            value[name] = None
        if odd := state.contradiction(list(_kinds_of_value(value))):
            name, kind, expected = odd
            bad.append(_Bad(number, 1, f"{WORDS[kind]} in column {name!r}", f"{WORDS[expected]}, as in other lines"))
            continue
        if useless:
            line = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
        good.append((number, line))
    return good, bad


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r} twice")
        found[name] = value
    return found


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"the number {text} is too large")
    return value


def _finite_int(text: str) -> int | float:
    return int(text) if len(text) < 300 else _finite(text)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {str: "string", list: "list", dict: "object"}
    return names.get(type(value), "number")


def _kinds_of_value(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(column, kind) of everything in an object that is not null."""
    if name and value is not None:
        yield name, _kind(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _kinds_of_value(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds_of_value(inner, f"{name}[]")


def _kinds_of_batch(batch: Any, state: JsonState) -> Iterator[tuple[str, str]]:
    """The same for a record batch."""
    for column in batch.schema:
        if state.ignored(column.name):
            continue
        if column.name in state.numbers and pa.types.is_string(column.type):
            try:  # numbers in quotes
                batch.column(column.name).cast(pa.float64())
                continue
            except pa.ArrowInvalid:
                pass
        yield from _kinds_of_type(column.type, column.name)


def _kinds_of_type(arrow_type: Any, name: str) -> Iterator[tuple[str, str]]:
    types = pa.types
    if types.is_list(arrow_type):
        yield name, "list"
        yield from _kinds_of_type(arrow_type.value_type, f"{name}[]")
    elif types.is_struct(arrow_type):
        yield name, "object"
        for inner in arrow_type:
            yield from _kinds_of_type(inner.type, f"{name}.{inner.name}")
    elif types.is_boolean(arrow_type):
        yield name, "boolean"
    elif types.is_integer(arrow_type) or types.is_floating(arrow_type):
        yield name, "number"
    elif not types.is_null(arrow_type):
        yield name, "string"


def _read(view: memoryview) -> Any:
    options = arrow_json.ReadOptions(use_threads=False, block_size=len(view) + 1)
    table = arrow_json.read_json(pa.BufferReader(view), options)
    dates = [column.with_type(pa.string()) for column in table.schema if pa.types.is_temporal(column.type)]
    if dates:  # text that looks like dates: whether all of a piece does must not change its type
        table = arrow_json.read_json(
            pa.BufferReader(view), options, arrow_json.ParseOptions(explicit_schema=pa.schema(dates))
        )
    return table.combine_chunks().to_batches()[0]


def _lines(view: memoryview) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and end of every line, and the numbers of those that are not blank."""
    data = np.frombuffer(view, np.uint8)
    ends = np.flatnonzero(data == NEWLINE) + 1
    starts = np.append(0, ends[:-1])
    return starts, ends, np.flatnonzero(np.maximum.reduceat(data > ord(" "), starts))


def _all_open_an_object(view: memoryview, starts: np.ndarray, ends: np.ndarray) -> bool:
    """Whether each line begins as an object does: pyarrow takes "null" for one, and as the first line crashes on it."""
    odd = np.flatnonzero(np.frombuffer(view, np.uint8)[starts] != ord("{"))
    return all(bytes(view[starts[i] : ends[i]]).lstrip()[:1] == b"{" for i in odd)
