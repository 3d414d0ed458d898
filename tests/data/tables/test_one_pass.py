"""Streams of tables with hashed levels: one pass, the same rows as in two passes, and no copy of a pipe."""

from __future__ import annotations

import io
import json
import random
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from lineal.data import byte_stream
from lineal.data.options import ReadOptions
from lineal.data.stream import stream
from lineal.data.tables import one_pass, reader
from lineal.errors import DataError, ParseError

WORDS = "the a day report people city work time thing house great awful".split()  # noqa: SIM905


def records(n, seed=0):
    source = random.Random(seed)
    return [
        {
            "body": " ".join(source.choice(WORDS) for _ in range(9)),
            "size": source.random(),
            "city": source.choice(["Oslo", "Riga"]),
            "label": source.choice(["yes", "no"]),
        }
        for _ in range(n)
    ]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(rows[0])] + [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    return path


def blocks_of(path, **options):
    return list(stream(str(path), ReadOptions(**{"levels": "hash", "bits": 12, **options})))


def joined(blocks):
    return np.vstack([block.X.toarray() for block in blocks]), np.concatenate([block.y for block in blocks])


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
@pytest.mark.parametrize("rows", [20, 3000])
def test_the_rows_are_those_of_two_passes(name, rows, tmp_path, monkeypatch):
    path = write(tmp_path / name, records(rows))
    options = {"text": "body", "missing": "zero"}
    X, y = joined(blocks_of(path, **options))
    assert X.shape == (rows, 1 + 2 * 4096)
    monkeypatch.setattr(one_pass, "FORMATS", ())
    two_X, two_y = joined(blocks_of(path, **options))
    assert np.array_equal(X, two_X)
    assert y.tolist() == two_y.tolist()


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_pipe_is_not_copied(name, tmp_path, monkeypatch):
    path = write(tmp_path / name, records(40_000))
    assert path.stat().st_size > 2 * one_pass.FIRST_BYTES
    monkeypatch.setattr(byte_stream, "_spool", None)  # a copy would be an error
    monkeypatch.setattr(one_pass, "HEAD_BYTES", one_pass.FIRST_BYTES + (1 << 18))
    expected, labels = joined(blocks_of(path, text="body", bits=4))
    stdin = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    blocks = blocks_of("-", text="body", bits=4, format=path.suffix[1:], block_bytes=1 << 20)
    assert len(blocks) > 1
    found, y = joined(blocks)
    assert np.array_equal(found, expected)
    assert y.tolist() == labels.tolist()


def test_what_the_first_piece_does_not_show(tmp_path):
    rows = records(12_000)
    rows[-1] |= {"label": "perhaps", "city": "Bergen", "size": "", "body": "never seen before"}
    assert len(write(tmp_path / "t.csv", rows).read_bytes()) > one_pass.FIRST_BYTES / 2
    rows = rows[:-1] * 3 + rows[-1:]
    X, y = joined(blocks_of(write(tmp_path / "t.csv", rows), text="body"))
    assert y[-1] == "perhaps"
    assert np.count_nonzero(X[-1, 1:]) == 4  # a city and three words, all of them new
    assert X[-1, 0] == pytest.approx(0.5, abs=0.05)  # the mean of the first piece
    rows[-1]["size"] = "large"
    with pytest.raises(ParseError, match="found 'large'"):
        blocks_of(write(tmp_path / "t.csv", rows), text="body")


def test_rows_longer_than_the_head_take_two_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(one_pass, "HEAD_BYTES", 1 << 10)
    rows = [{"body": "word " * 400, "label": label} for label in ("yes", "no")]
    X, y = joined(blocks_of(write(tmp_path / "t.jsonl", rows), text="body"))
    assert y.tolist() == ["yes", "no"]
    assert np.count_nonzero(X) == 2


def test_errors_are_those_of_the_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,label\n1,"x\n')
    with pytest.raises(ParseError, match=r"t\.csv:2:3: found a quote that is never closed"):
        blocks_of(path)
    with pytest.raises(DataError, match="no such column"):
        blocks_of(write(path, records(5)), label="none")


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_binary_files_are_read_once(name, tmp_path, monkeypatch):
    rows = records(3000)
    expected, labels = joined(blocks_of(write(tmp_path / "t.jsonl", rows), text="body", missing="zero"))
    path, table = tmp_path / name, pa.Table.from_pylist(rows)
    if name == "t.parquet":
        parquet.write_table(table, path, row_group_size=700)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=700)
    batches = []
    of_file = reader._binary
    monkeypatch.setattr(
        reader, "_binary", lambda *given: (batches.append(len(batch)) or batch for batch in of_file(*given))
    )
    monkeypatch.setattr(reader, "BATCH_CELLS", 1024 * table.num_columns)
    X, y = joined(blocks_of(path, text="body", missing="zero"))
    assert np.array_equal(X, expected)
    assert y.tolist() == labels.tolist()
    assert sum(batches) < 1.5 * len(rows)  # the first batch twice
