"""svmlight and VW text in one pass, with nothing known beforehand (see `lineal.data.stream`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lineal.core.threads import thread_count
from lineal.data import ngrams
from lineal.data.dataset import Dataset
from lineal.data.options import ReadOptions
from lineal.data.read import Plan
from lineal.data.schema import Schema
from lineal.data.text.assemble import Parsed, Parser, parse_blocks
from lineal.data.text.ngrams import hash_of_name
from lineal.data.text.reader import TextReader, csr_of_parsed, drop_unlabelled, label_sets
from lineal.data.text.svmlight import READER as SVMLIGHT
from lineal.data.text.vw import READER as VW
from lineal.errors import DataError, OptionError

if TYPE_CHECKING:
    from lineal.data.stream import StreamChoices

READERS = {reader.name: reader for reader in (SVMLIGHT, VW)}


def text_blocks(plan: Plan, choices: StreamChoices, class_names: Sequence[float] | None) -> Iterator[Dataset]:
    """Blocks of parsed lines. Options are checked at once; reading begins with the first block."""
    reader, schema = READERS[plan.format], plan.schema
    reader.check_schema(schema)
    if choices.namespaces and reader.name != "vw":
        raise OptionError(f"namespaces={list(choices.namespaces)!r}: {reader.name} text has none")
    if schema is None:
        schema = _schema(reader.name, plan.options, class_names)
    elif class_names is not None and list(class_names) != schema.settings.get("class_names"):
        raise OptionError("class_names cannot be changed: the schema decides them")
    return _blocks(reader, plan, _parser(reader, plan.options, schema, choices), schema, choices)


def _schema(name: str, options: ReadOptions, class_names: Sequence[float] | None) -> Schema:
    """The schema of the stream, decided before the first line."""
    settings: dict[str, Any] = {"bits": options.bits} | ngrams.of_options(options).settings()
    if name == "svmlight":
        if options.n_features is not None:
            raise OptionError(f"n_features={options.n_features}: a stream has 2**bits columns; say bits")
        settings["index_base"] = 1 if options.index_base == "1" else 0
    if not options.labels:
        settings["labels"] = "none"
    elif class_names is not None:
        settings |= {"labels": "multi", "class_names": np.unique(np.asarray(class_names)).tolist()}
    else:
        settings["labels"] = "float"
    return Schema(name, 1 << options.bits, settings).checked()


def _parser(reader: TextReader, options: ReadOptions, schema: Schema, choices: StreamChoices) -> Parser:
    parser = reader.parser(options, schema)
    if "bits" not in schema.settings:  # a model's svmlight files, whose columns are all known
        return parser
    limits = parser.limits._replace(merge=choices.merge)
    if choices.namespaces:
        limits = limits._replace(wanted=np.array([hash_of_name(name) for name in choices.namespaces], np.uint64))
    return replace(parser, limits=limits, has_kinds=bool(choices.namespaces))


def _blocks(
    reader: TextReader, plan: Plan, parser: Parser, schema: Schema, choices: StreamChoices
) -> Iterator[Dataset]:
    room = parser.options.max_bad_lines
    chunks = thread_count(parser.options.n_jobs)
    for parsed in parse_blocks(parser, plan.pieces, chunks, needs_rows=plan.part is None):
        choices.seen |= parsed.facts.names
        if "" in choices.namespaces and (parsed.kinds == 1 + choices.namespaces.index("")).any():
            choices.seen.add("")  # the kernel notes only namespaces that have a name
        block = _dataset(reader, parsed, parser, schema, room)
        room -= block.bad_lines
        yield block
        del parsed, block


def _dataset(reader: TextReader, parsed: Parsed, parser: Parser, schema: Schema, room: int) -> Dataset:
    is_multi = schema.settings.get("labels") == "multi"
    wanted = parser.options.labels
    if wanted and parsed.labels.dtype.kind != "f":
        raise DataError(
            f"the label {np.abs(parsed.labels).max()} is beyond 2**53: a stream holds labels as doubles, in which such "
            "numbers become equal; number the classes from 0, or read the files whole"
        )
    if wanted and not is_multi:
        if parsed.facts.most_labels > 1:
            raise DataError(
                "a line has several labels, and a stream does not know the classes before its end: give class_names, "
                "or read the files whole"
            )
        if reader.labels_required and parsed.facts.unlabelled:
            drop_unlabelled(parsed, room, parser.options.max_bad_lines)
    y, class_names = None, None
    if wanted and is_multi:
        class_names = schema.settings["class_names"]
        y = label_sets(parsed.labels, parsed.label_end, class_names)
    elif wanted:
        y = _numbers(parsed)
    return Dataset(
        csr_of_parsed(parsed, schema.n_features),
        y,
        reader.extras(parsed).get("weights") if wanted else None,
        class_names=class_names,
        schema=schema,
        bad_lines=parsed.facts.bad,
        kinds=parsed.kinds if parser.has_kinds else None,
    )


def _numbers(parsed: Parsed) -> np.ndarray:
    """One number per row; NaN for rows without a label."""
    if not parsed.facts.unlabelled:
        return parsed.labels
    y = np.full(parsed.row_end.size, np.nan)
    y[np.diff(parsed.label_end, prepend=0) > 0] = parsed.labels
    return y
