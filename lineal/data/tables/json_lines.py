"""JSON lines as record batches: pyarrow parses a chunk; if it fails, Python looks at each line once."""

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

from lineal.data.chunks import NEWLINE, Chunk
from lineal.data.label_numbers import INEXACT, large_and_fractional, whole_kind
from lineal.errors import DataError, ParseError

#: What messages call a value of each kind.
KIND_NAMES = {
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "list": "a list",
    "object": "an object",
}

#: Lists and objects within each other, at most.
MAX_DEPTH = 100

#: Levels that are safe for pyarrow, which calls itself once for each: 50,000 of them end the process.
SAFE_DEPTH = 1000


def _none(name: str) -> bool:
    return False


@dataclass
class JsonState:
    """What is known about the lines of one read so far.

    Attributes
    ----------
    ignored : tells whether a column is not used, so that its values may be anything.
    numbers : columns that were numbers in training.
    label_of : returns the label column, given the columns of the first lines; its integers are read exactly.
    kinds : the kind of each column ("a"), field of an object ("a.b") and item of a list ("a[]") so far.
    """

    ignored: Callable[[str], bool] = _none
    numbers: frozenset[str] = frozenset()
    label_of: Callable[[list[str]], str | None] | None = None
    label: str | None = None
    kinds: dict[str, str] = field(default_factory=dict)

    def find_label(self, names: list[str]) -> str | None:
        """The label column, which the columns of the first lines decide."""
        if self.label_of is not None:
            self.label, self.label_of = self.label_of(names), None
        return self.label

    def contradiction(self, found: list[tuple[str, str]]) -> tuple[str, str, str] | None:
        """The first (column, kind found, kind expected) that contradicts earlier lines; if none does, note kinds."""
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
    """A malformed line: its number in the chunk, the position in it, what was found and expected."""

    line: int
    column: int
    found: str
    expected: str = "one JSON object per line"


def parse(chunk: Chunk, path: str, allowed: int, state: JsonState | None = None) -> tuple[Any, int]:
    """The objects of a chunk, one per line, as a record batch, and the number of malformed lines that were skipped.

    The batch is None if all lines are blank. More malformed lines than `allowed` are an error.
    """
    state = state or JsonState()
    view = chunk.data.data
    starts, ends, lines = _lines(view)
    if not len(lines):
        return None, 0
    if _all_open_an_object(view, starts[lines], ends[lines]) and _is_shallow(view, ends):
        try:
            batch = _read(view)
            # pyarrow accepts objects that span lines, and several per line; with other chunks, the same file would fail
            if len(batch) == len(lines) and state.contradiction(list(_kinds_of_batch(batch, state))) is None:
                return _with_exact_label(batch, (bytes(view[starts[i] : ends[i]]) for i in lines), state), 0
        except (pa.ArrowInvalid, RecursionError):
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
    """The batch, in which Python reads whole-number labels again that pyarrow has rounded to doubles."""
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
        raise large_and_fractional(str(name))
    whole = [None if label is None else int(label) for label in labels]
    kind = whole_kind(min([0, *filter(None, whole)]), max([0, *filter(None, whole)]), str(name))
    exact = pa.array(whole, pa.uint64() if kind == "unsigned" else pa.int64())
    return batch.set_column(batch.schema.get_field_index(name), name, exact)


def _read_good(good: list[tuple[int, bytes]], path: str) -> tuple[Any, list[_Bad], list[bytes]]:
    """Read the lines that Python accepts: (the batch, the lines that pyarrow refused, those that were read).

    If pyarrow refuses the lines, for example for half a surrogate pair, they are tried one by one.
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
            bad.append(_Bad(number, 1, f"invalid JSON ({what})"))
    try:
        return _read(memoryview(b"".join(kept))) if kept else None, bad, kept
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from None


def _classify(spans: list[tuple[int, bytes]], state: JsonState) -> tuple[list[tuple[int, bytes]], list[_Bad]]:
    """The well-formed lines, with null in columns that are ignored, and the malformed ones."""
    good, bad = [], []
    for number, line in spans:
        text = line.rstrip().decode(
            "utf-8", "surrogateescape"
        )  # other encodings are refused later, with the name of the column
        try:
            value = json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_int=_finite_int)
            useless = [name for name in value if state.ignored(name)] if isinstance(value, dict) else []
            for name in useless:
                value[name] = None
            kinds = list(_kinds_of_value(value))
        except json.JSONDecodeError as error:
            column = 1 + len(text[: error.pos].encode("utf-8", "surrogateescape"))
            bad.append(_Bad(number, column, f"invalid JSON ({error.msg})"))
            continue
        except ValueError as error:
            bad.append(_Bad(number, 1, f"invalid JSON ({error})"))
            continue
        except RecursionError:
            bad.append(_Bad(number, 1, f"lists or objects nested more than {MAX_DEPTH} deep", "a table"))
            continue
        if not isinstance(value, dict):
            bad.append(_Bad(number, 1, "null" if value is None else KIND_NAMES[_kind(value)]))
            continue
        if odd := state.contradiction(kinds):
            name, kind, expected = odd
            bad.append(
                _Bad(number, 1, f"{KIND_NAMES[kind]} in column {name!r}", f"{KIND_NAMES[expected]}, as in other lines")
            )
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


def _kinds_of_value(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(column, kind) of everything in a JSON value that is not null."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if name and value is not None:
        yield name, _kind(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _kinds_of_value(inner, f"{name}.{key}" if name else key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds_of_value(inner, f"{name}[]", depth + 1)


def _kinds_of_batch(batch: Any, state: JsonState) -> Iterator[tuple[str, str]]:
    """(column, kind) of everything in a record batch."""
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
    if dates:  # text that looks like dates stays text, whether or not all values of a piece look so
        table = arrow_json.read_json(
            pa.BufferReader(view), options, arrow_json.ParseOptions(explicit_schema=pa.schema(dates))
        )
    return table.combine_chunks().to_batches()[0]


def _lines(view: memoryview) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and end of every line, and the numbers of the lines that are not blank."""
    data = np.frombuffer(view, np.uint8)
    ends = np.flatnonzero(data == NEWLINE) + 1
    starts = np.append(0, ends[:-1])
    return starts, ends, np.flatnonzero(np.maximum.reduceat(data > ord(" "), starts))


def _all_open_an_object(view: memoryview, starts: np.ndarray, ends: np.ndarray) -> bool:
    """Whether each line begins like an object: pyarrow accepts "null" as one, and crashes on it in the first line."""
    odd = np.flatnonzero(np.frombuffer(view, np.uint8)[starts] != ord("{"))
    return all(bytes(view[starts[i] : ends[i]]).lstrip()[:1] == b"{" for i in odd)


def _is_shallow(view: memoryview, ends: np.ndarray) -> bool:
    """Whether pyarrow, which goes on over the end of a line within an object, comes to no more than SAFE_DEPTH levels.

    Brackets within texts are not counted, unless a text is not closed on its line.
    """
    data = np.frombuffer(view, np.uint8)
    if _depth(data, ends) <= SAFE_DEPTH:
        return True
    bare = bytes(view).replace(rb"\\", b"").replace(rb"\"", b"")
    flat = np.frombuffer(bare, np.uint8)
    quotes = np.searchsorted(np.flatnonzero(flat == ord('"')), np.flatnonzero(flat == NEWLINE))
    if (quotes % 2).any():
        return False
    outside = np.frombuffer(b"".join(bare.split(b'"')[::2]), np.uint8)
    return _depth(outside, np.flatnonzero(outside == NEWLINE) + 1) <= SAFE_DEPTH


def _depth(data: np.ndarray, ends: np.ndarray) -> int:
    """The most levels that lines of these brackets can have, if those that are left open add up."""
    folded = data | 0x20  # makes "[" and "{" the same, as well as "]" and "}"
    opens, closes = folded == ord("{"), folded == ord("}")
    if np.count_nonzero(opens) == np.count_nonzero(closes) == len(ends) and (data[ends - 2] == ord("}")).all():
        return 1  # the usual table: each line opens one object, and its end closes that
    opened, closed = (np.diff(np.searchsorted(np.flatnonzero(found), ends), prepend=0) for found in (opens, closes))
    return int(opened.max() + np.maximum(opened - closed, 0).sum())
