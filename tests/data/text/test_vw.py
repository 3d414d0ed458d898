"""Vowpal Wabbit text: hashes, a naive twin, positions of errors, labels and weights."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.utils import murmurhash3_32

from lineal.data.options import ReadOptions
from lineal.data.text import assemble
from lineal.data.text.murmur import hash_name, murmur3_32
from lineal.data.text.vw import read, read_blocks
from lineal.errors import DataError, OptionError, ParseError

DEFAULT = ReadOptions()


@pytest.fixture
def parse(tmp_path):
    """Read bytes or text through a file."""

    def function(text, schema=None, **changes):
        path = tmp_path / "data.vw"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read([str(path)], replace(DEFAULT, **changes), schema)

    return function


def our_hash(function, text: bytes, seed: int) -> int:
    zero, length = np.uint64(0), np.uint64(len(text))
    return int(function(np.frombuffer(text + b"\n", np.uint8), zero, length, np.uint64(seed)))


@pytest.mark.core
@pytest.mark.parametrize(
    ("text", "seed", "value"),
    [
        (b"", 0, 0), (b"", 1, 0x514E28B7), (b"", 0xFFFFFFFF, 0x81F16F39), (b"\0\0\0\0", 0, 0x2362F9DE),
        (b"abc", 0, 0xB3DD93FA), (b"aaaa", 0x9747B28C, 0x5A97808A), (b"test", 0, 0xBA6BD213),
        (b"test", 0x9747B28C, 0x704B81DC), (b"Hello, world!", 0x9747B28C, 0x24884CBA),
        (b"The quick brown fox jumps over the lazy dog", 0x9747B28C, 0x2FA826CD),
    ],
)  # fmt: skip
def test_murmur_vectors(text, seed, value):
    assert our_hash(murmur3_32, text, seed) == value


@pytest.mark.core
@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 2**32 - 1))
def test_murmur_agrees_with_sklearn(text, seed):
    assert our_hash(murmur3_32, text, seed) == murmurhash3_32(text, seed, positive=True)


@pytest.mark.core
def test_whole_numbers_are_themselves():
    assert our_hash(hash_name, b"123", 0) == 123
    assert our_hash(hash_name, b"123", 1000) == 1123
    assert our_hash(hash_name, b"-1", 7) == murmurhash3_32(b"-1", 7, positive=True)
    assert our_hash(hash_name, b"1.5", 0) == murmurhash3_32(b"1.5", 0, positive=True)


def naive_hash(name: str, seed: int) -> int:
    return int(name) + seed if re.fullmatch("[0-9]+", name) else murmurhash3_32(name.encode(), seed, positive=True)


def naive_row(line: str, bits: int) -> dict[int, float]:
    """The features of one line as a dict from column to value."""
    row: dict[int, float] = {}
    for part in line.split("|")[1:]:
        space, *features = part.split() if not part[:1].isspace() and part else ["", *part.split()]
        name, _, weight = space.partition(":")
        seed = naive_hash(name, 0) if name else 0
        unnamed = 0
        for feature in features:
            text, _, value = feature.partition(":")
            column = naive_hash(text, seed) if text else seed + unnamed
            unnamed += not text
            amount = float(value or 1) * float(weight or 1)
            if amount:
                row[column % 2**bits] = row.get(column % 2**bits, 0.0) + amount
    return row


LINES = [
    "1 |a x y:2 z",
    "-1 2.5 'tag|b:0.5 x:3 12 x",
    "1 1 0 tag|text the cat sat on the mat|numbers 5 7:2 5:.5 |a:2 x",
    "0 | plain 3 :4 :5 zero:0 é",
    "2\t| \t",
    "1 |",
    "1 |é:2 ü:1e-1 |9 9",
]


@pytest.mark.core
@pytest.mark.parametrize("bits", [3, 18, 30])
def test_agrees_with_the_naive_twin(parse, bits):
    data = parse("\n".join(LINES), bits=bits)
    assert data.X.shape == (len(LINES), 2**bits)
    for i, line in enumerate(LINES):
        columns = data.X.indices[data.X.indptr[i] : data.X.indptr[i + 1]]
        values = data.X.data[data.X.indptr[i] : data.X.indptr[i + 1]]
        expected = sorted(naive_row(line, bits).items())
        assert columns.tolist() == [column for column, _ in expected]
        np.testing.assert_allclose(values, [value for _, value in expected], rtol=1e-15)
    np.testing.assert_array_equal(data.y, [1, -1, 1, 0, 2, 1, 1])
    np.testing.assert_array_equal(data.weights, [1, 2.5, 1, 1, 1, 1, 1])
    assert data.schema.settings == {
        "bits": bits, "namespaces": ["9", "a", "b", "numbers", "text", "é"], "labels": "int",
    }  # fmt: skip


@pytest.mark.core
def test_known_columns_of_the_vw_tutorial(parse):
    data = parse("0 | price:.23 sqft:.25 age:.05 2006")
    assert dict(zip(data.X.indices.tolist(), data.X.data.tolist())) == {
        229902: 0.23, 162853: 0.25, 165201: 0.05, 2006: 1.0,
    }  # fmt: skip


@pytest.mark.core
def test_labels(parse):
    assert parse("1 | a\n2 | b").y.dtype == np.int64
    assert parse("1 | a\n2.5 | b").y.dtype == np.float64
    assert parse("| a\n 'tag| b\ntag| c").y is None
    assert parse("1 | a\n2 | b").weights is None
    with pytest.raises(ParseError, match="label missing") as caught:
        parse("1 | a\n\n  | b")
    assert (caught.value.line, caught.value.column) == (3, 3)
    kept = parse("1 | a\n\n  | b\n3 | c", max_bad_lines=1)
    assert kept.y.tolist() == [1, 3]
    assert kept.X.shape[0] == 2
    assert kept.bad_lines == 1


@pytest.mark.core
def test_multilabel(parse):
    data = parse("0,3 | a\n | b\n3 | c")
    assert data.class_names == [0, 3]
    np.testing.assert_array_equal(data.y.toarray().astype(int), [[1, 1], [0, 0], [0, 1]])


@pytest.mark.core
def test_schema_sets_the_bits(parse):
    schema = parse("1 |a x", bits=10).schema
    later = parse("1 |b y", schema=schema, bits=18)
    assert later.X.shape == (1, 1024)
    assert later.schema == schema
    assert parse("|b y", schema=schema).y is None


@pytest.mark.core
@pytest.mark.parametrize(
    ("text", "line", "column", "found", "expected"),
    [
        ("1 | a\n1 a b\n", 2, 3, "'a'", "importance"),
        ("1", 1, 2, "the end of the line", "'|'"),
        ("x | a", 1, 1, "'x'", "label"),
        ("1x | a", 1, 1, "'1x'", "label"),
        ("1,x | a", 1, 3, "'x'", "label"),
        ("1e999 | a", 1, 1, "'1e999'", "finite"),
        ("1 -2 | a", 1, 3, "'-2'", "importance"),
        ("1 1e999 | a", 1, 3, "'1e999'", "importance"),
        ("1 2 0.5 | a", 1, 5, "'0.5'", "initial predictions"),
        ("1 2 0 4 | a", 1, 7, "'4'", "after label"),
        ("1 'tag x | a", 1, 8, "'x'", "'|'"),
        ("1 | a:", 1, 7, "the end of the line", "number"),
        ("1 | a:b", 1, 7, "'b'", "number"),
        ("1 | a:nan", 1, 7, "'nan'", "number"),
        ("1 | a:1e999", 1, 7, "'1e999'", "finite"),
        ("1 | a:1:2", 1, 8, "':2'", "space"),
        ("1 |n:x a", 1, 6, "'x'", "number"),
        ("1 |n:2x a", 1, 7, "'x'", "space"),
    ],
)
def test_malformed(parse, text, line, column, found, expected):
    with pytest.raises(ParseError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column, error.found) == (line, column, found)
    assert expected in error.expected


@pytest.mark.core
def test_refusals(parse):
    with pytest.raises(DataError, match="no examples"):
        parse("\n\n")
    with pytest.raises(OptionError, match="bits=31"):
        parse("1 | a", bits=31)
    with pytest.raises(ParseError, match="finite"):
        parse("1 | a:1e39", dtype="float32")
    with pytest.raises(ParseError, match="finite"):
        parse("1 |n:1e200 a:1e200")


@pytest.mark.core
def test_float32_and_bad_lines(parse):
    data = parse("1 | a:0.1\nbad\n2 | b:x\n3 | c\r\n", dtype="float32", max_bad_lines=2)
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [1, 3]
    assert data.bad_lines == 2
    with pytest.raises(ParseError, match="max_bad_lines=1"):
        parse("1 | a:0.1\nbad\n2 | b:x\n", max_bad_lines=1)


@pytest.mark.core
def test_more_namespaces_than_are_remembered(parse):
    text = "1 " + " ".join(f"|n{i} x" for i in range(400))
    data = parse(text)
    assert len(data.schema.settings["namespaces"]) == 256
    assert data.X.nnz > 390


@pytest.mark.parametrize("chunk_bytes", [1, 100])
def test_chunks_threads_and_blocks_do_not_matter(tmp_path, monkeypatch, chunk_bytes):
    path = tmp_path / "data"
    path.write_text("\n".join(LINES * 30))
    whole = read([str(path)], replace(DEFAULT, n_jobs=1))
    monkeypatch.setattr(assemble, "CHUNK_BYTES", chunk_bytes)
    for jobs in (1, 2):
        data = read([str(path)], replace(DEFAULT, n_jobs=jobs))
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(data.X, name), getattr(whole.X, name))
        np.testing.assert_array_equal(data.y, whole.y)
        np.testing.assert_array_equal(data.weights, whole.weights)
        assert data.schema == whole.schema
    blocks = list(read_blocks([str(path)], replace(DEFAULT, block_bytes=500)))
    assert len(blocks) > 3
    assert {block.schema.n_features for block in blocks} == {2**18}
    stacked = sparse.vstack([block.X for block in blocks])
    np.testing.assert_array_equal(stacked.data, whole.X.data)
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), whole.y)
