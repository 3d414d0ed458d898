"""The formats of files: which reader reads each of them, how a file shows its format, and which options apply to it.

To add a format, write its reader and add a row to `FORMATS`.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from lineal.errors import DataError

#: An Arrow file begins and ends with these bytes.
ARROW_MAGIC = b"ARROW1"

#: Key of the metadata that marks an Arrow file in the binary layout (see `lineal.data.binary.layout`).
LAYOUT_KEY = b"lineal"

#: Bytes at the beginning of a file from which its format is guessed.
HEAD_BYTES = 1 << 16

_COMPRESSED = re.compile(r"\.(gz|bz2|zstd?)$")

#: Options of every table: the roles of its columns, and how they become columns of X.
TABLE_OPTIONS = frozenset(
    "label weight ignore id text categorical numeric levels rare scale missing bits ngram skips".split()  # noqa: SIM905
)
_TEXT_TABLE_OPTIONS = TABLE_OPTIONS | {"max_bad_lines"}
_CSV_OPTIONS = _TEXT_TABLE_OPTIONS | {"delimiter", "header", "names", "na"}


class Format(NamedTuple):
    """One format of files.

    Attributes
    ----------
    reader : the module that reads it (see `lineal.data.read.Reader`).
    extensions : endings of file names that stand for it.
    magic : the bytes that its files begin with; None if that is not fixed.
    options : the fields of `ReadOptions` that apply to it, beside those of `ALWAYS`.
    """

    reader: str
    extensions: tuple[str, ...] = ()
    magic: bytes | None = None
    options: frozenset[str] = frozenset()


#: "layout" is an Arrow file that `lineal convert` has written; users call it "arrow".
FORMATS = {
    "svmlight": Format(
        "lineal.data.text.svmlight",
        (".svm", ".svmlight", ".libsvm"),
        options=frozenset({"index_base", "n_features", "max_bad_lines"}),
    ),
    "vw": Format("lineal.data.text.vw", (".vw",), options=frozenset({"bits", "ngram", "skips", "max_bad_lines"})),
    "csv": Format("lineal.data.tables.reader", (".csv",), options=_CSV_OPTIONS),
    "tsv": Format("lineal.data.tables.reader", (".tsv",), options=_CSV_OPTIONS),
    "jsonl": Format("lineal.data.tables.reader", (".jsonl", ".ndjson", ".json"), options=_TEXT_TABLE_OPTIONS),
    "parquet": Format("lineal.data.tables.reader", (".parquet",), b"PAR1", TABLE_OPTIONS),
    "arrow": Format("lineal.data.tables.reader", (".arrow", ".feather", ".ipc"), ARROW_MAGIC, TABLE_OPTIONS),
    "npy": Format("lineal.data.arrays", (".npy",), b"\x93NUMPY", frozenset({"mapped"})),
    "npz": Format("lineal.data.arrays", (".npz",), b"PK\x03\x04"),
    "layout": Format("lineal.data.binary.layout", options=frozenset({"trusted", "mapped"})),
}

#: What the option `format` can be.
NAMES = ("auto", *(name for name in FORMATS if name != "layout"))

#: Options that apply to every format.
ALWAYS = frozenset({"format", "dtype", "n_jobs", "block_bytes", "labels"})

#: Formats whose rows are lines of text with cells.
CSV_LIKE = ("csv", "tsv")


def may_be_arrow(path: str) -> bool:
    """Whether a file begins as an Arrow file, or cannot be read. PyArrow is not imported for this."""
    try:
        with open(path, "rb") as file:
            return file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
    except OSError:
        return True


def is_compressed(path: str) -> bool:
    """Whether the name of a file says that it is compressed."""
    return _COMPRESSED.search(path.lower()) is not None


def named_format(path: str) -> str | None:
    """The format that the name of a file stands for, compressed or not; None if the name does not tell."""
    extension = os.path.splitext(_COMPRESSED.sub("", path.lower()))[1]
    return next((name for name, one in FORMATS.items() if extension in one.extensions), None) if extension else None


def format_of(path: str) -> str:
    """The format of a file, from its name or else from its first bytes."""
    from lineal.data.source import display_name

    return named_format(path) or sniff(_head(path), display_name(path))


def sniff(head: bytes, name: str) -> str:
    """The format that the first bytes of a file show; `name` is what messages call the file."""
    from lineal.data.source import BYTE_ORDER_MARK

    for kind, one in FORMATS.items():
        if one.magic is not None and head.startswith(one.magic):
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
    """The first bytes of a file, decompressed; those of standard input can be read again."""
    from lineal.data.byte_stream import open_bytes, stdin_head
    from lineal.data.source import STDIN

    if path == STDIN:
        return stdin_head(HEAD_BYTES)
    if not os.path.isfile(path):
        raise DataError(f"{path} is a pipe, and looking at its first bytes would lose them: say format=…")
    with open_bytes(path) as stream:
        return stream.read(HEAD_BYTES)
