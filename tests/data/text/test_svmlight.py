"""svmlight text: agreement with scikit-learn, exact numbers, positions of errors, chunks, threads, blocks."""

from __future__ import annotations

import gzip
import io
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import lineal
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.text import assemble
from lineal.data.text.lines import sort_entries
from lineal.data.text.numbers import parse_number
from lineal.data.text.svmlight import read, read_blocks
from lineal.errors import DataError, OptionError, ParseError

A9A = Path(__file__).parents[4] / "shared" / "data" / "a9a" / "train.svm.gz"
DEFAULT = ReadOptions()


@pytest.fixture
def parse(tmp_path):
    """Read bytes or text through a file."""

    def function(text, options=DEFAULT, schema=None, **changes):
        path = tmp_path / "data.svm"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read([str(path)], replace(options, **changes), schema)

    return function


def assert_same(a, b):
    for name in ("data", "indices", "indptr"):
        left, right = getattr(a.X, name), getattr(b.X, name)
        np.testing.assert_array_equal(left, right)
        assert left.dtype == right.dtype
    assert a.X.shape == b.X.shape
    np.testing.assert_array_equal(_dense(a.y), _dense(b.y))
    assert (a.class_names, a.schema, a.bad_lines) == (b.class_names, b.schema, b.bad_lines)


def _dense(y):
    return y.toarray() if sparse.issparse(y) else y


def random_file(path, n=500, d=300, zero_based=False, integral=True):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=0.05, rng=rng, format="csr")
    X.data *= 10.0 ** rng.integers(-12, 12, X.nnz)
    y = rng.integers(-2, 3, n) if integral else rng.normal(size=n)
    dump_svmlight_file(X, y, str(path), zero_based=zero_based)
    return str(path)


def assert_agrees_with_sklearn(path, **options):
    ours = read([path], replace(DEFAULT, **options))
    X, y = load_svmlight_file(path)
    np.testing.assert_array_equal(ours.X.data, X.data)
    np.testing.assert_array_equal(ours.X.indices, X.indices)
    np.testing.assert_array_equal(ours.X.indptr, X.indptr)
    np.testing.assert_array_equal(ours.y, y)
    assert ours.X.shape == X.shape
    return ours


@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("integral", [False, True])
def test_agrees_with_sklearn(tmp_path, zero_based, integral):
    ours = assert_agrees_with_sklearn(random_file(tmp_path / "a", zero_based=zero_based, integral=integral))
    assert ours.y.dtype == (np.int64 if integral else np.float64)
    assert ours.schema.settings["index_base"] == (0 if zero_based else 1)


@pytest.mark.skipif(not A9A.exists(), reason="shared/data/a9a is not on this machine")
def test_a9a():
    assert assert_agrees_with_sklearn(str(A9A)).X.shape == (32561, 123)


@pytest.mark.core
def test_the_forms_a_line_can_take(parse):
    data = parse(
        b"# a comment\n+1 1:0.5 3:2\n\n  \t\r\n-1\t2:1e-3   4:-.5 \r\n2.0 # no features\n1 4:+3.#comment\n-1 2:5E+1"
    )
    np.testing.assert_array_equal(data.y, [1, -1, 2, 1, -1])
    expected = [[0.5, 0, 2, 0], [0, 1e-3, 0, -0.5], [0, 0, 0, 0], [0, 0, 0, 3], [0, 50, 0, 0]]
    np.testing.assert_array_equal(data.X.toarray(), expected)
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int32
    assert data.X.dtype == np.float64
    assert data.query_ids is None
    assert data.schema.to_json() == {
        "format": "svmlight", "n_features": 4, "settings": {"index_base": 1, "labels": "int"},
    }  # fmt: skip


@pytest.mark.core
def test_unsorted_rows_are_sorted(parse):
    order = np.random.default_rng(0).permutation(200) + 1
    data = parse("1 3:3 1:1 2:2\n0 " + " ".join(f"{i}:{i}" for i in order))
    np.testing.assert_array_equal(data.X.indices, [0, 1, 2, *range(200)])
    np.testing.assert_array_equal(data.X.data, [1, 2, 3, *range(1, 201)])


@pytest.mark.core
@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-1, 2**31 - 2), max_size=80), st.integers(0, 5))
def test_sort_is_stable(keys, start):
    indices = np.array([*range(start), *keys, 7], np.int32)
    values = np.arange(indices.size, dtype=np.float64)
    order = start + np.argsort(keys, kind="stable") if keys else np.empty(0, np.int64)
    expected = [*range(start), *np.sort(keys).astype(int), 7], [*range(start), *order, start + len(keys)]
    sort_entries(indices, values, start, start + len(keys))
    assert (indices.tolist(), values.tolist()) == expected


@pytest.mark.core
def test_query_ids(parse):
    data = parse("1 qid:7 1:1\n0 qid:-8 2:1\n1 qid:9\n")
    np.testing.assert_array_equal(data.query_ids, [7, -8, 9])
    with pytest.raises(ParseError, match="qid") as caught:
        parse("1 qid:7 1:1\n\n 0 2:1\n1 qid:9\n")
    assert (caught.value.line, caught.value.column) == (3, 2)


@pytest.mark.core
def test_multilabel(parse):
    data = parse("3,1 1:1\n 2:1\n5 1:2\n1:3 2:1\n1,1\nqid:4 2:1\n".replace("qid:4 ", ""))
    assert data.class_names == [1, 3, 5]
    assert data.y.dtype == bool
    np.testing.assert_array_equal(
        data.y.toarray().astype(int), [[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
    )
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0], [0, 1], [2, 0], [3, 1], [0, 0], [0, 1]])
    assert data.schema.settings["class_names"] == [1, 3, 5]


@pytest.mark.core
def test_multilabel_schema_keeps_its_columns(parse):
    schema = parse("3,1 1:1\n5 2:1\n").schema
    later = parse("1 1:1\n4,5 2:1\n", schema=schema)
    assert later.class_names == [1, 3, 5]
    np.testing.assert_array_equal(later.y.toarray().astype(int), [[1, 0, 0], [0, 0, 1]])


@pytest.mark.core
def test_fractional_labels(parse):
    assert parse("1.5 1:1\n2 1:1").y.dtype == np.float64
    assert parse("0.5,2 1:1\n2 1:1").class_names == [0.5, 2.0]
    assert parse("1e300 1:1\n").y.dtype == np.float64


@pytest.mark.core
@pytest.mark.parametrize(
    ("text", "line", "column", "found", "expected"),
    [
        ("1 1:1\nspam 1:1\n", 2, 1, "'spam'", "label"),
        ("1x 1:1", 1, 1, "'1x'", "label"),
        ("1, 1:1", 1, 3, "' '", "label"),
        ("1,x 1:1", 1, 3, "'x'", "label"),
        ("nan 1:1", 1, 1, "'nan'", "label"),
        ("1e999 1:1", 1, 1, "'1e999'", "finite"),
        ("\n# c\n1 1:1 2:nan\n", 3, 9, "'nan'", "number"),
        ("1 1:inf", 1, 5, "'inf'", "number"),
        ("1 1:-Infinity", 1, 5, "'-Infinity'", "number"),
        ("1 1:1e400", 1, 5, "'1e400'", "finite"),
        ("1 1:", 1, 5, "the end of the line", "number"),
        ("1 1: 5", 1, 5, "' '", "number"),
        ("1 1:0x10", 1, 6, "'x10'", "space"),
        ("1 1:1,5", 1, 6, "',5'", "space"),
        ("1 1:1_0", 1, 6, "'_0'", "space"),
        ("1 1:1e", 1, 5, "'1e'", "number"),
        ("1 5", 1, 3, "'5'", "index:value"),
        ("1 a:1", 1, 3, "'a:1'", "index:value"),
        ("1 :1", 1, 3, "':1'", "index:value"),
        ("1 1.5:1", 1, 3, "'1.5:1'", "index:value"),
        ("1 -1:1", 1, 3, "'-1:1'", "index:value"),
        ("1 1:1 2147483647:1", 1, 7, "'2147483647:1'", "at most 2147483646"),
        ("1 99999999999999999999:1", 1, 3, "'99999999999999999999:1'", "at most 2147483646"),
        ("1 3:1 3:2", 1, 7, "'3:2'", "once"),
        ("1 3:1 1:2 7:1 3:2 5:0", 1, 15, "'3:2'", "once"),
        ("1 qid:x 1:1", 1, 7, "'x'", "qid"),
        ("1 qid:99999999999999999999 1:1", 1, 7, "'99999999999999999999'", "qid"),
        ("1 1:1 qid:3", 1, 7, "'qid:3'", "index:value"),
        ("1 1:1\r\n1 1:b\r\n", 2, 5, "'b'", "number"),
        ("1 1:1\n1:2\n", 2, 1, "'1:2' (label missing)", "label"),
        ("1 1:1\n 1:2\n", 2, 2, "'1:2' (label missing)", "label"),
        ("qid:1 1:1\n", 1, 1, "'qid:1' (label missing)", "label"),
        ("1 \xff:1", 1, 3, None, "index:value"),
        ("1 1:" + "z" * 100, 1, 5, "'" + "z" * 40 + "'…", "number"),
        ("1 1:1\0", 1, 6, "'\\x00'", "space"),
    ],
)
def test_malformed(parse, text, line, column, found, expected):
    with pytest.raises(ParseError) as caught:
        parse(text.encode("latin-1"))
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert found is None or error.found == found
    assert expected in error.expected
    assert error.path.endswith("data.svm")


@pytest.mark.core
@pytest.mark.parametrize("text", ["", "\n", "# only\n\n# comments", " \n\t\n"])
def test_no_examples(parse, text):
    with pytest.raises(DataError, match="no examples"):
        parse(text)


@pytest.mark.core
def test_index_base(parse):
    assert parse("1 1:1 3:1").X.shape == (1, 3)
    assert parse("1 1:1 3:1", index_base="0").X.shape == (1, 4)
    zero = parse("1 2:1\n0 0:1 1:5\n")
    assert zero.schema.settings["index_base"] == 0
    np.testing.assert_array_equal(zero.X.toarray(), [[0, 0, 1], [1, 5, 0]])
    with pytest.raises(ParseError, match="index_base is 1") as caught:
        parse("1 1:1\n1 0:1", index_base="1")
    assert (caught.value.line, caught.value.column) == (2, 3)
    with pytest.raises(OptionError, match="did you mean '1'"):
        parse("1 1:1", index_base="11")


@pytest.mark.core
def test_schema_fixes_the_columns(parse):
    schema = parse("1 1:1 5:1").schema
    later = parse("1 2:1", schema=schema)
    assert later.X.shape == (1, 5)
    assert later.X.indices.tolist() == [1]
    with pytest.raises(ParseError, match="the model knows only 5 features") as caught:
        parse("1 2:1 6:1", schema=schema)
    assert (caught.value.line, caught.value.column, caught.value.found) == (1, 7, "'6:1'")
    with pytest.raises(ParseError, match="index_base is 1"):
        parse("1 0:1", schema=schema)
    zero_based = parse("1 0:1 4:1").schema
    assert parse("1 1:1", schema=zero_based).X.indices.tolist() == [1]
    with pytest.raises(OptionError, match="contradicts"):
        parse("1 1:1", schema=schema, index_base="0")
    with pytest.raises(DataError, match="trained on vw"):
        parse("1 1:1", schema=replace(schema, format="vw"))
    with pytest.raises(DataError, match="several labels"):
        parse("1,2 1:1", schema=schema)


@pytest.mark.core
def test_n_features(parse):
    assert parse("1 2:1", n_features=7).X.shape == (1, 7)
    assert parse("1 7:1", n_features=7).X.shape == (1, 7)
    with pytest.raises(ParseError, match="n_features=7"):
        parse("1 8:1", n_features=7)
    with pytest.raises(DataError, match="indices start at 0"):
        parse("1 7:1\n1 0:1", n_features=7)
    with pytest.raises(OptionError, match="n_features=0"):
        parse("1 1:1", n_features=0)


@pytest.mark.core
def test_max_bad_lines(parse):
    text = "1 1:1\n1 1:x\n0 2:1 2:1\n-1 3:1 1:2\n1:5\n"
    data = parse(text, max_bad_lines=3)
    assert data.bad_lines == 3
    np.testing.assert_array_equal(data.y, [1, -1])
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 0], [2, 0, 1]])
    with pytest.raises(ParseError, match="max_bad_lines=1") as caught:
        parse(text, max_bad_lines=1)
    assert caught.value.line == 3
    with pytest.raises(ParseError, match="max_bad_lines=2") as caught:
        parse(text, max_bad_lines=2)
    assert caught.value.line == 5
    with pytest.raises(DataError, match=r"no examples \(2 malformed"):
        parse("x\ny\n", max_bad_lines=5)
    with pytest.raises(OptionError, match="max_bad_lines"):
        parse(text, max_bad_lines=-1)


def test_bad_lines_are_counted_over_chunks(parse, monkeypatch):
    text = "".join(f"1 {i}:{'x' if i % 5 == 0 else 1}\n" for i in range(1, 101))
    whole = parse(text, max_bad_lines=20)
    monkeypatch.setattr(assemble, "CHUNK_BYTES", 50)
    assert_same(parse(text, max_bad_lines=20), whole)
    assert whole.bad_lines == 20
    with pytest.raises(ParseError, match="malformed line number 13;") as caught:
        parse(text, max_bad_lines=12)
    assert caught.value.line == 65


@pytest.mark.core
def test_float32(parse):
    data = parse("1 1:0.1 2:3", dtype="float32")
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X.data, np.float32([0.1, 3]))
    with pytest.raises(ParseError, match="finite"):
        parse("1 1:1e39", dtype="float32")
    with pytest.raises(OptionError, match="dtype"):
        parse("1 1:1", dtype="int8")


TEXTS = {
    "plain": "".join(f"{i % 3} {i % 7 + 1}:{i / 7!r} {i % 5 + 9}:{i}\n" for i in range(200)),
    "zero based": "".join(f"{i % 3} {i % 7}:{i / 7!r} # 5:5\n\n" for i in range(100)),
    "several labels": "".join(f"{i % 3},{i % 5} {i % 7 + 1}:1\n" for i in range(100)) + " 3:1",
    "queries": "".join(f"{i / 8} qid:{i} {i % 7 + 1}:1\r\n" for i in range(100)),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("chunk_bytes", [1, 30, 1000])
def test_chunks_do_not_matter(parse, monkeypatch, name, chunk_bytes):
    whole = parse(TEXTS[name], n_jobs=1)
    monkeypatch.setattr(assemble, "CHUNK_BYTES", chunk_bytes)
    for jobs in (1, 2):
        data = parse(TEXTS[name], n_jobs=jobs)
        assert_same(data, whole)
        np.testing.assert_array_equal(data.query_ids, whole.query_ids)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
def test_blocks_add_up_to_the_whole(tmp_path, name, packed):
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(TEXTS[name].encode()) if packed else TEXTS[name].encode())
    options = replace(DEFAULT, block_bytes=200)
    whole = read([str(path)], DEFAULT)
    in_parts = read([str(path)], options)
    assert_same(in_parts, whole)
    for schema in (None, whole.schema):
        blocks = list(read_blocks([str(path)], options, schema))
        assert len(blocks) > 3
        assert all(block.schema == whole.schema and block.class_names == whole.class_names for block in blocks)
        assert all(block.y.dtype == whole.y.dtype for block in blocks)
        stack = sparse.vstack if sparse.issparse(whole.y) else np.concatenate
        np.testing.assert_array_equal(_dense(stack([block.y for block in blocks])), _dense(whole.y))
        np.testing.assert_array_equal(sparse.vstack([block.X for block in blocks]).toarray(), whole.X.toarray())


def test_blocks_count_bad_lines(tmp_path):
    path = tmp_path / "data"
    path.write_text("1 1:1\nx\n1 1:2\n1 y\n1 2:2\n3:3\n")
    options = replace(DEFAULT, block_bytes=8, max_bad_lines=3)
    assert sum(block.bad_lines for block in read_blocks([str(path)], options)) == 3
    with pytest.raises(ParseError, match="malformed"):
        list(read_blocks([str(path)], replace(options, max_bad_lines=2)))
    path.write_text("")
    with pytest.raises(DataError, match="no examples"):
        list(read_blocks([str(path)], options))


def test_stdin(parse, monkeypatch):
    whole = parse(TEXTS["plain"])
    stdin = lambda: types.SimpleNamespace(buffer=io.BytesIO(TEXTS["plain"].encode()))  # noqa: E731
    monkeypatch.setattr("sys.stdin", stdin())
    assert_same(read(["-"], DEFAULT), whole)
    monkeypatch.setattr("sys.stdin", stdin())
    blocks = list(read_blocks(["-"], replace(DEFAULT, block_bytes=500)))
    assert sum(len(block) for block in blocks) == len(whole)


def test_several_files_are_one(tmp_path, parse):
    lines = TEXTS["plain"].splitlines(keepends=True)
    (tmp_path / "1").write_text("".join(lines[:50])[:-1])
    (tmp_path / "2").write_bytes(gzip.compress("".join(lines[50:120]).encode()))
    (tmp_path / "3").write_text("".join(lines[120:]))
    assert_same(read([str(tmp_path / name) for name in "123"], DEFAULT), parse(TEXTS["plain"]))


def test_position_in_a_later_chunk_and_file(tmp_path, monkeypatch):
    monkeypatch.setattr(assemble, "CHUNK_BYTES", 20)
    (tmp_path / "1").write_text("1 1:1\n" * 50)
    (tmp_path / "2").write_text("1 1:1\n" * 30 + "1 1:1 2;3\n")
    for packed in (False, True):
        if packed:
            (tmp_path / "2").write_bytes(gzip.compress((tmp_path / "2").read_bytes()))
        with pytest.raises(ParseError) as caught:
            read([str(tmp_path / "1"), str(tmp_path / "2")], DEFAULT)
        assert caught.value.path.endswith("2")
        assert (caught.value.line, caught.value.column) == (31, 7)


def test_many_entries_make_int64_indices(parse, monkeypatch):
    monkeypatch.setattr(assemble, "INT32_ENTRIES", 100)
    data = parse(TEXTS["plain"])
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int64
    assert parse("1 1:1").X.indices.dtype == np.int32


def number(text: str) -> float:
    value, after = parse_number(np.frombuffer(text.encode() + b"\n", np.uint8), np.uint64(0))
    assert after == len(text)
    return value


@pytest.mark.core
@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["%r", "%.17g", "%.6g", "%.25e", "%.40f"]))
def test_numbers_are_exact(value, form):
    text = form % value
    assert number(text) == float(text)


@pytest.mark.core
@settings(max_examples=300, deadline=None)
@given(st.from_regex(r"\A[+-]?([0-9]{1,30}\.[0-9]{0,30}|\.?[0-9]{1,25})(e[+-]?[0-9]{1,3})?\Z"))
def test_any_decimal_is_exact(text):
    assert number(text) == float(text)


@pytest.mark.core
@pytest.mark.parametrize(
    "bits", [1, 2, (1 << 52) - 1, 1 << 52, 0x3FF0000000000000, 0x4340000000000001, (2046 << 52) - 1]
)
def test_halfway_points(bits):
    """The number between two doubles goes to the even one, and up as soon as any later digit is not 0."""
    from decimal import Decimal, localcontext

    low, high = (float(np.uint64(b).view(np.float64)) for b in (bits, bits + 1))
    with localcontext() as context:
        context.prec = 2000
        text = format((Decimal(low) + Decimal(high)) / 2, "f")
    text += "" if "." in text else "."
    for tail in ("", "000", "0" * 900 + "1"):
        assert number(text + tail) == float(text + tail)
    assert number(text + "0" * 900 + "1") == high


@pytest.mark.core
@pytest.mark.parametrize(
    "text", ["5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "2.2250738585072011e-308",
             "1.7976931348623157e308", "1.7976931348623159e308", "9007199254740993", "18446744073709551616",
             "0e99999999999", "1e-99999999999", "-0", "+.5", "5.",
             "0." + "0" * 500 + "1e500", "1" + "0" * 500 + "e-500"],
)  # fmt: skip
def test_edges_of_the_doubles(text):
    assert number(text) == float(text)
    assert np.signbit(number(text)) == np.signbit(float(text))


@pytest.mark.parametrize("blocks", [False, True])
def test_rows_to_predict_need_no_labels(tmp_path, blocks):
    path = tmp_path / "rows.svm"
    path.write_text("1:1 2:2\n3 2:5\n1,2 1:7\n1:9\n")
    schema = Schema("svmlight", 2, {"index_base": 1, "labels": "int"})
    for known in (schema, None):
        if blocks:
            parts = list(lineal.read_blocks(path, schema=known, labels=False, block_bytes=8))
        else:
            parts = [lineal.read(path, schema=known, labels=False)]
        assert all(part.y is None and part.class_names is None and part.bad_lines == 0 for part in parts)
        X = np.vstack([part.X.toarray() for part in parts])
        np.testing.assert_array_equal(X, [[1, 2], [0, 5], [7, 0], [9, 0]])
