"""`TextReader`: from parsed lines to a `Dataset`, whole or block by block, for all line-oriented formats."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineal.data.byte_stream import spooled
from lineal.data.dataset import Dataset, csr_of_parts, indicator_matrix
from lineal.data.label_numbers import is_integral, join_labels, whole_type
from lineal.data.options import ReadOptions
from lineal.data.parts import whole_files
from lineal.data.schema import Schema
from lineal.data.text.assemble import NO_FACTS, Facts, Parsed, Parser, parse_all, parse_blocks
from lineal.errors import DataError

#: What a schema calls integers of each type.
WHOLE = {"int": np.int64, "uint": np.uint64}


@dataclass(frozen=True)
class TextReader:
    """The reader of a line-oriented format.

    Attributes
    ----------
    name : the schema's format.
    parser : makes the parser for some options and the schema to follow, if any.
    schema : makes the schema of files from what was found in them (label settings are added here).
    columns : turns the parsed indices into columns of the schema, in place.
    extras : makes Dataset fields from `Parsed.extras`.
    labels_required : whether a file without any label is an error.
    missing_extra : what messages call the extra number that a line lacks while others have it; None if it has a
        default.
    """

    name: str
    parser: Callable[[ReadOptions, Schema | None], Parser]
    schema: Callable[[Facts, ReadOptions], Schema]
    columns: Callable[[Parsed, Schema, Parser], None]
    extras: Callable[[Parsed], dict[str, Any]]
    labels_required: bool
    missing_extra: str | None = None

    def read(self, paths: list[str], options: ReadOptions, schema: Schema | None) -> Dataset:
        """Read all files as one Dataset; with a schema, into the columns that it describes."""
        self.check_schema(schema)
        parser = self.parser(options, schema)
        parsed = parse_all(parser, paths)
        if schema is None:
            schema = self._schema_of(parsed.facts, np.unique(parsed.labels), options)
        return self._dataset(parsed, schema, parser, options.max_bad_lines)

    def read_blocks(self, paths: list[str], options: ReadOptions, schema: Schema | None) -> Iterator[Dataset]:
        """Read blocks of about `block_bytes` of text; without a schema, a first pass over the files finds it."""
        self.check_schema(schema)
        with spooled(paths) if schema is None else contextlib.nullcontext(paths) as paths:
            if schema is None:
                facts, distinct = NO_FACTS, np.empty(0)
                for block in parse_blocks(self.parser(options, None), whole_files(paths)):
                    facts += block.facts
                    distinct = np.unique(join_labels([distinct, np.unique(block.labels)]))
                    del block
                schema = self._schema_of(facts, distinct, options)
            parser = self.parser(options, schema)
            room = options.max_bad_lines
            for parsed in parse_blocks(parser, whole_files(paths)):
                data = self._dataset(parsed, schema, parser, room)
                room -= data.bad_lines
                yield data
                del parsed, data

    def check_schema(self, schema: Schema | None) -> None:
        """Refuse a schema of another format."""
        if schema is not None and schema.format != self.name:
            raise DataError(f"the model was trained on {schema.format} data and cannot read {self.name} text")

    def _schema_of(self, facts: Facts, distinct: np.ndarray, options: ReadOptions) -> Schema:
        schema = self.schema(facts, options)
        if not options.labels:
            distinct, facts = distinct[:0], replace(facts, most_labels=0)
        return replace(schema, settings={**schema.settings, **label_settings(distinct, facts.most_labels)})

    def _dataset(self, parsed: Parsed, schema: Schema, parser: Parser, room: int) -> Dataset:
        kind = schema.settings.get("labels", "int")
        facts, wanted = parsed.facts, parser.options.labels
        if wanted and facts.most_labels > 1 and kind != "multi":
            raise DataError("the text has several labels per line, but the model was trained with one label per line")
        if self.missing_extra and 0 < facts.with_extra < facts.rows and facts.first_without_extra is not None:
            raise facts.first_without_extra.error(self.missing_extra)
        no_labels = not wanted or (facts.unlabelled == facts.rows and not self.labels_required)
        if facts.unlabelled and kind != "multi" and not no_labels:
            drop_unlabelled(parsed, room, parser.options.max_bad_lines)
        self.columns(parsed, schema, parser)

        X = csr_of_parsed(parsed, schema.n_features)
        class_names = schema.settings.get("class_names") if kind == "multi" and wanted else None
        if class_names is not None:
            y = label_sets(parsed.labels, parsed.label_end, class_names)
        else:
            y = None if no_labels else one_label(parsed.labels, kind)
        extras = self.extras(parsed)
        if not wanted:
            extras.pop("weights", None)
        return Dataset(X, y, class_names=class_names, schema=schema, bad_lines=parsed.facts.bad, **extras)


def csr_of_parsed(parsed: Parsed, n_features: int) -> Any:
    """The rows as a csr_array over the parsed arrays."""
    indptr = np.zeros(parsed.row_end.size + 1, parsed.indices.dtype)
    indptr[1:] = parsed.row_end
    return csr_of_parts(parsed.values, parsed.indices, indptr, (parsed.row_end.size, n_features))


def drop_unlabelled(parsed: Parsed, room: int, max_bad_lines: int) -> None:
    """Treat lines without their one label as malformed: leave them out, or raise an error if they exceed `room`."""
    facts = parsed.facts
    if facts.bad + facts.unlabelled > room and facts.first_unlabelled is not None:
        many = f"; {facts.bad + facts.unlabelled} lines are malformed, max_bad_lines={max_bad_lines}"
        raise facts.first_unlabelled.error(
            "a label on every line" + (many if max_bad_lines else ""),
            found=f"{facts.first_unlabelled.token()} (label missing)",
        )
    keep = np.diff(parsed.label_end, prepend=0) > 0
    lengths = np.diff(parsed.row_end, prepend=0)
    entries = np.repeat(keep, lengths)
    parsed.values, parsed.indices = parsed.values[entries], parsed.indices[entries]
    parsed.row_end, parsed.label_end = np.cumsum(lengths[keep]), parsed.label_end[keep]
    parsed.extras = parsed.extras[keep]
    parsed.kinds = parsed.kinds[entries] if parsed.kinds.size else parsed.kinds
    rows = facts.rows - facts.unlabelled
    parsed.facts = replace(facts, rows=rows, bad=facts.bad + facts.unlabelled, unlabelled=0)
    if not rows:
        raise DataError("no line has a label")


# --- labels: numbers, one or several per row, compared by value


def label_settings(distinct: np.ndarray, most_labels: int) -> dict[str, Any]:
    """The schema settings for labels, from their distinct values and the largest number of labels per row."""
    kind = "float"
    if is_integral(distinct):
        kind = "uint" if whole_type([distinct]) is np.uint64 else "int"
    if most_labels > 1:
        return {"labels": "multi", "class_names": distinct.astype(WHOLE.get(kind, np.float64)).tolist()}
    return {"labels": kind if most_labels else "none"}


def one_label(labels: np.ndarray, kind: str) -> np.ndarray:
    """y for one label per row: integers if all are integers, unless an earlier file had others."""
    if kind == "float" or not is_integral(labels):
        return labels.astype(np.float64, copy=False)
    return labels.astype(np.uint64 if kind == "uint" and (labels >= 0).all() else whole_type([labels]), copy=False)


def label_sets(labels: np.ndarray, label_end: np.ndarray, class_names: list[Any]) -> Any:
    """y for any number of labels per row, over sorted `class_names`; labels unseen in training are left out."""
    names = np.asarray(class_names) if class_names else np.empty(0)
    known = np.ones(labels.size, dtype=bool)
    if names.dtype.kind in "iu" and is_integral(labels):  # compared as integers, not as doubles
        bounds = np.iinfo(names.dtype)
        wide = labels.astype(object) if labels.dtype.kind in "iu" and labels.dtype != names.dtype else labels
        known = np.asarray((wide >= bounds.min) & (wide <= bounds.max), dtype=bool)
        labels = np.where(known, labels, 0).astype(names.dtype)
    columns = np.searchsorted(names, labels)
    known &= columns < names.size
    known[known] = names[columns[known]] == labels[known]
    rows = np.repeat(np.arange(label_end.size), np.diff(label_end, prepend=0))
    return indicator_matrix(rows[known], columns[known], (label_end.size, names.size))
