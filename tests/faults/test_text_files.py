"""Text files with random damage: every run ends in all rows or in an error of ours; no row is lost in silence."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from pathlib import Path

import numpy as np
import pytest

import lineal
from lineal.data.tables import csv as csv_reader
from lineal.data.tables import wide
from lineal.errors import LinealError

NUMBERS = ["0", "1", "-2.5", "1e-3", "3.25", "12345678", "9007199254740993", "18446744073709551615", "7e22", "007"]
HOSTILE = [
    b'"', b'""', b'"\n', b',"', b'",', b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b",", b"\t",
    b";", b"|", b":", b"#", b"'", b"{", b"}", b"[", b"\\", b"e", b"-", b"+", b".", b"nan", b"inf", b"1e999", b"9" * 400,
    b"18446744073709551616", b"-9223372036854775809", b"2147483647:1", b"99999999999999999999:1", b" ", b"null",
]  # fmt: skip


def number(rng: random.Random) -> str:
    return rng.choice(NUMBERS)


def csv_text(rng: random.Random, delimiter: str = ",") -> str:
    width, rows = rng.randint(1, 4), rng.randint(1, 8)
    kinds = [rng.choice("nnt") for _ in range(width)]
    label = rng.choice(["text", "number"])

    def cell(kind: str) -> str:
        if kind == "n":
            return number(rng)
        text = rng.choice(["red", "blue", "two words", f"a{delimiter}b", 'say "hi"', "two\nlines", ""])
        is_plain = not set(text) & {delimiter, '"', "\n"}
        return text if is_plain and rng.random() < 0.7 else '"' + text.replace('"', '""') + '"'

    lines = [delimiter.join([f"c{j}" for j in range(width)] + ["label"])] if rng.random() < 0.7 else []
    for _ in range(rows):
        last = rng.choice(["yes", "no", '"yes"']) if label == "text" else rng.choice(["0", "1", "9007199254740993"])
        lines.append(delimiter.join([*map(cell, kinds), last]))
    end = rng.choice(["\n", "\n", "\r\n"])
    return end.join(lines) + rng.choice([end, ""])


def svm_text(rng: random.Random) -> str:
    lines = []
    for _ in range(rng.randint(1, 8)):
        columns = sorted(rng.sample(range(1, 20), rng.randint(0, 4)))
        lines.append(f"{number(rng)} " + " ".join(f"{j}:{number(rng)}" for j in columns))
    return "\n".join(lines) + rng.choice(["\n", ""])


def vw_text(rng: random.Random) -> str:
    lines = []
    for _ in range(rng.randint(1, 8)):
        names = rng.sample(["a", "b", "word", "12"], rng.randint(0, 4))
        lines.append(f"{number(rng)} |n " + " ".join(f"{name}:{number(rng)}" for name in names))
    return "\n".join(lines) + rng.choice(["\n", ""])


def json_text(rng: random.Random) -> str:
    labels = rng.choice([['"x"', '"y"'], ["0", "1", "9007199254740993", "18446744073709551615"]])
    numbers = [text for text in NUMBERS if text != "007"]
    lines = [
        f'{{"a": {rng.choice(numbers)}, "t": "{rng.choice(["p", "q"])}", "label": {rng.choice(labels)}}}'
        for _ in range(rng.randint(1, 8))
    ]
    return "\n".join(lines) + rng.choice(["\n", ""])


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Up to three bytes flipped, pieces cut out, doubled, or something hostile put in."""
    data = bytearray(content)
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(data) + 1)
        kind = rng.choice(["flip", "cut", "end", "put", "put", "put", "double"])
        if kind == "flip" and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        elif kind == "cut":
            del data[place : place + rng.randint(1, 6)]
        elif kind == "end":
            del data[place:]
        elif kind == "double":
            data[place:place] = data[place : place + rng.randint(1, 20)]
        else:
            data[place:place] = rng.choice(HOSTILE)
    return bytes(data)


def csv_rows(content: bytes, delimiter: str, has_header: bool) -> set[int]:
    """How many rows Python's own parser finds, taking lines of blanks for rows or not; -1 where it finds a mistake.

    It knows no blanks after a closing quote, which are allowed.
    """
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = re.sub(r'" +(?=[,;|\t\r\n]|$)', '"', text)
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return {-1}
    filled = [record for record in records if record]
    blank = [record for record in filled if len(record) == 1 and not record[0].strip()]
    return {len(filled) - has_header, len(filled) - len(blank) - has_header}


def line_rows(content: bytes, comment: bytes) -> set[int]:
    lines = [line.strip(b" \t\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    return {sum(1 for line in lines if line and not (comment and line.startswith(comment)))}


def rows_of(content: bytes, kind: str, data: lineal.data.dataset.Dataset) -> set[int]:
    if kind in (".csv", ".tsv"):
        assert data.schema is not None
        delimiter = "\t" if kind == ".tsv" else max(",;\t|", key=content.splitlines()[0].decode("latin-1").count)
        return csv_rows(content, delimiter, bool(data.schema.settings["header"]))
    return line_rows(content, b"#" if kind == ".svm" else b"")


MAKERS = {
    ".csv": csv_text, ".tsv": lambda rng: csv_text(rng, "\t"), ".svm": svm_text, ".vw": vw_text, ".jsonl": json_text,
}  # fmt: skip


def problem_of(path: Path, content: bytes, kind: str) -> str | None:
    """What is not fine about reading a file, whole and in blocks."""
    try:
        data = lineal.read(path, missing="zero") if kind in (".csv", ".tsv", ".jsonl") else lineal.read(path)
    except LinealError as error:
        return "two lines" if "\n" in str(error) else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    values = data.X if isinstance(data.X, np.ndarray) else data.X.data
    if not np.isfinite(values).all() or (
        data.y is not None and data.y.dtype.kind == "f" and not np.isfinite(data.y).all()
    ):
        return "not finite"
    expected = rows_of(content, kind, data)
    if len(data) not in expected:
        return f"{len(data)} rows instead of {expected}"
    return None


@pytest.mark.parametrize("kind", MAKERS)
def test_damaged_text(tmp_path, tally, factor, kind):
    area = tally("text files")
    rng = random.Random(f"{kind} 0")
    for attempt in range(150 * factor):
        content = damaged(MAKERS[kind](rng).encode(), rng)
        path = tmp_path / f"t{kind}"
        path.write_bytes(content)
        if attempt % 10 == 0:
            path = tmp_path / f"t{kind}.gz"
            path.write_bytes(gzip.compress(content))
        problem = problem_of(path, content, kind)
        area.attempt(f"{kind} {attempt}: {content!r}", problem)


def outcome(path: Path, **options):
    """What reading gives, in a form that can be compared; which of several mistakes is named first may differ."""
    try:
        data = lineal.read(path, **options)
    except LinealError:
        return "error"
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    return X.tolist(), None if data.y is None else data.y.tolist(), data.feature_names


@pytest.mark.parametrize("kind", [".csv", ".tsv"])
def test_pieces_and_wide_tables_change_nothing(tmp_path, monkeypatch, tally, factor, kind):
    """However a CSV file is cut into pieces, and however its columns are parsed, the result is the same."""
    area = tally("text files")
    rng = random.Random(f"{kind} 1")
    for _ in range(60 * factor):
        path = tmp_path / f"t{kind}"
        path.write_bytes(damaged(MAKERS[kind](rng).encode(), rng))
        options = {"missing": rng.choice(["zero", "error", "error"])}
        expected = outcome(path, **options)
        with monkeypatch.context() as patched:
            patched.setattr(csv_reader, "PIECE_BYTES", rng.randint(1, 40))
            small = outcome(path, **options)
            patched.setattr(wide, "MIN_COLUMNS", 1)
            together = outcome(path, **options)
        for what, found in (("small pieces", small), ("together", together)):
            problem = None if found == expected else f"{found} instead of {expected}"
            area.attempt(f"{what} {path.read_bytes()!r}", problem)
