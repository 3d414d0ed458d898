"""One row of a table in memory is encoded cell by cell: to the same numbers as by Arrow, and with the same errors."""

from __future__ import annotations

import datetime
import decimal
import sys
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import lineal
from lineal.data.tables import reader
from lineal.data.tables.encode import Encoding
from lineal.data.tables.one_row import row_of_frame, row_of_record
from lineal.data.tables.reader import encode_frame, encode_records
from lineal.errors import DataError

NAN, DAY = float("nan"), datetime.date(2026, 2, 28)


def training(n=60):
    random = np.random.default_rng(0)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(random.integers(0, 400, n), "D")
    return pd.DataFrame({
        "size": random.normal(size=n) * 10.0,
        "gaps": np.where(random.random(n) < 0.2, np.nan, random.normal(size=n)),
        "count": random.integers(0, 9, n),
        "kind": random.choice(["ash", "birch", "cedar oak", "3", "true"], n),
        "code": random.integers(0, 5, n),
        "hole": pd.Series(random.choice(["x", "y", None], n), dtype=object),
        "open": random.random(n) < 0.5,
        "day": days,
        "moment": days + pd.to_timedelta(random.integers(0, 86_400, n), "s"),
        "iso": days.strftime("%Y-%m-%d"),
        "note": [" ".join(random.choice(["good", "bad", "été", "a", "of", "film"], 6)) + f" w{i}" for i in range(n)],
    })  # fmt: skip


def features_of(ignore="", **given):
    table = training().drop(columns=[name for name in ignore.split(",") if name])
    roles = {role: name for role, name in (("categorical", "code"), ("text", "note")) if name in table.columns}
    return lineal.TableFeatures(**roles, **given).fit(table)


ENCODINGS = {
    "default": {},
    "float32": {"dtype": "float32"},
    "unscaled, zeros": {"scale": "none", "missing": "zero"},
    "means": {"missing": "mean", "rare": 12},
    "no gaps": {"missing": "error", "ignore": "gaps,hole"},
    "hashed": {"levels": "hash", "bits": 10},
    "few columns": {"ignore": "note,kind,code,hole,iso"},
}


def dense_of(X):
    return X.toarray() if sparse.issparse(X) else X


def outcome(encode, rows, schema):
    try:
        X = encode(rows, schema)
    except DataError as error:
        return str(error)
    entries = (X.indices.tolist(), X.indptr.tolist(), X.data.tolist()) if sparse.issparse(X) else X.tolist()
    return type(X).__name__, X.dtype.name, X.shape, entries


def assert_same(monkeypatch, encode, rows, schema):
    """The result without Arrow is that with it."""
    found = outcome(encode, rows, schema)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "row_of_frame", lambda frame: None)
        patch.setattr("lineal.data.tables.one_row.RowEncoder.encode", lambda self, row: None)
        wanted = outcome(encode, rows, schema)
    assert found == wanted
    return found


CELLS = {
    "size": [1.5, -0.0, 3, 2**60 + 1, True, None, NAN, float("inf"), "4.5", "x", 1e308, decimal.Decimal("1.5"), 2**70],
    "gaps": [0.0, None, NAN, np.float32(0.1), np.int8(3), "", pd.NA],
    "count": [4, 4.0, 4.5, False, None, np.uint8(7), "5"],
    "kind": ["ash", " birch ", "cedar oak", "new", "", "nan", "NA", None, NAN, 3, 3.0, 3.5, True, 1e16, "\ud800", "é"],
    "code": [3, "3", " 3", 3.0, 2.5, 99, None, NAN, True, np.int64(2), np.float64(2.0), -0.0, float("inf")],
    "hole": ["x", "z", None, NAN, pd.NA, "null", "None", 0, b"x"],
    "open": [True, False, None, 1, 0.5, "true", np.bool_(True), NAN],
    "day": [
        DAY, "2026-02-28", "2026-02-28T10:00", "2026-02-28 10:00:00", " 2026-02-28", "x", "2026-13-01", None, NAN,
        datetime.datetime(1950, 3, 1, 5), datetime.datetime(2026, 1, 1, 1, 2, 3, 4), datetime.date(1, 1, 1), 5, pd.NaT,
        pd.Timestamp("2026-05-05T12:00"), pd.Timestamp("2026-05-05T12:00:00.5"), pd.Timestamp("2026-05-05", tz="CET"),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), np.datetime64("2026-01-01"), "2026-W01-1",
    ],
    "moment": [datetime.datetime(2026, 1, 31, 23, 59, 59), DAY, None, pd.Timestamp("1969-12-31T23:59:59")],
    "iso": ["2026-02-28", DAY, None, "0000-01-01", "9999-12-31"],
    "note": ["good film", "", None, "ÉTÉ good", "\ud800", 5, True, NAN, "w3 unseen"],
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODINGS)
def test_records(monkeypatch, name):
    features = features_of(**ENCODINGS[name])
    first = {key: cells[0] for key, cells in CELLS.items()}
    results = [assert_same(monkeypatch, encode_records, [first], features.schema_)]
    for key, cells in CELLS.items():
        records = [{**first, key: cell} for cell in cells]
        results += [assert_same(monkeypatch, encode_records, [record], features.schema_) for record in records]
    assert len(set(map(str, results))) > 25  # they are different rows
    assert any(isinstance(result, str) for result in results)


@pytest.mark.parametrize("name", ENCODINGS)
def test_frames_of_pandas_and_arrow(monkeypatch, name):
    features, table = features_of(**ENCODINGS[name]), training()
    kinds = [
        {}, {"kind": "category", "code": "category", "hole": "category", "note": "category"},
        {"count": "Int64", "open": "boolean", "size": "Float64", "kind": "string"},
        {"count": "int8", "size": "float32", "code": "uint8"}, {"code": float}, {"code": str}, {"open": object},
    ]  # fmt: skip
    for given in kinds:
        typed = table.astype(given)
        for row in (0, 7, 21):
            one = typed[row : row + 1]
            found = assert_same(monkeypatch, encode_frame, one, features.schema_)
            whole = encode_frame(typed, features.schema_)[row : row + 1]
            np.testing.assert_array_equal(dense_of(encode_frame(one, features.schema_)), dense_of(whole))
            assert not isinstance(found, str)
    for frame in (pa.Table.from_pandas(table), pa.RecordBatch.from_pandas(table)):
        for row in (0, 7, 21):
            assert_same(monkeypatch, encode_frame, frame.slice(row, 1), features.schema_)


def test_single_cells_of_frames(monkeypatch):
    schema = features_of().schema_
    first = {key: cells[0] for key, cells in CELLS.items()}
    for key, cells in CELLS.items():
        for record in ({**first, key: cell} for cell in cells):
            row = {name: pd.Series([value], dtype=object) for name, value in record.items()}
            assert_same(monkeypatch, encode_frame, pd.DataFrame(row), schema)
            try:
                frames = [pd.DataFrame([record]), pa.Table.from_pylist([record])]
            except (pa.ArrowException, OverflowError, TypeError, ValueError):  # the library does not take the cell
                continue
            for frame in frames:
                assert_same(monkeypatch, encode_frame, frame, schema)


def test_frames_of_polars(monkeypatch):
    pl = pytest.importorskip("polars")
    table = pl.from_pandas(training())
    for name in ENCODINGS:
        schema = features_of(**ENCODINGS[name]).schema_
        for row in (0, 7, 21):
            one = table[row : row + 1]
            assert_same(monkeypatch, encode_frame, one, schema)
            for given in ({"kind": pl.Categorical}, {"code": pl.Float32}, {"size": pl.Float32, "count": pl.UInt8}):
                assert_same(monkeypatch, encode_frame, one.cast(given), schema)
            for key in table.columns:
                assert_same(monkeypatch, encode_frame, one.with_columns(pl.lit(None).alias(key)), schema)
                if table[key].dtype.is_numeric():
                    assert_same(monkeypatch, encode_frame, one.with_columns(pl.lit(NAN).alias(key)), schema)


def test_white_space_is_trimmed_as_arrow_does(monkeypatch):
    schema = lineal.TableFeatures().fit(pd.DataFrame({"kind": ["ash", "birch", "oak"] * 9})).schema_
    spaces = [
        chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp", "Cc")
    ]
    assert len(spaces) > 80
    for space in [*spaces, "\u180e", "\u200b", "\ufeff"]:
        assert_same(monkeypatch, encode_records, [{"kind": f"{space}ash{space}"}], schema)


@pytest.mark.parametrize(
    "rows",
    [
        {"a": 1}, {"a": 1, "b": "x", "b.c": 2}, {"a": 1, "b": {"c": 2}}, {"a": 1, "b.c": 2, "d": 0}, {},
        {"a": {"x": 1}, "b.c": 2},
    ],
    ids=str,
)  # fmt: skip
def test_columns_that_are_absent_or_objects(monkeypatch, rows):
    schema = lineal.TableFeatures().fit(pd.DataFrame({"a": [1.0, 2.0, 4.0], "b.c": [0.0, 1.0, 5.0]})).schema_
    assert_same(monkeypatch, encode_records, [rows], schema)
    assert_same(monkeypatch, encode_frame, pd.DataFrame([rows]), schema)


def test_frames_that_are_no_single_row():
    table = training(5)
    assert row_of_frame(table) is None
    assert row_of_frame(table[:0]) is None
    assert row_of_frame(pd.DataFrame([[1, 2]], columns=["a", "a"])) is None
    assert row_of_frame(pd.DataFrame([[1, 2]], columns=["a", 0])) is None
    assert row_of_frame(np.ones((1, 2))) is None
    assert row_of_frame(table[:1]).cells["size"] == table["size"][0]


def test_the_common_cells_do_not_need_arrow(monkeypatch):
    """What makes single rows fast: no column of Arrow is made."""
    schema = features_of(ignore="note").schema_
    monkeypatch.setattr("lineal.data.tables.frames.arrow_table", None)
    monkeypatch.setattr("lineal.data.tables.frames.column_of", None)
    table = training()
    encode_frame(table[3:4], schema)
    encode_frame(pa.Table.from_pandas(table[3:4]), schema)
    encode_records([{key: cells[0] for key, cells in CELLS.items()}], schema)


def test_models_predict_single_rows_as_they_do_many():
    table = training()
    y = np.where(table["size"] > 0.0, "up", "down")
    model = lineal.TableClassifier(lineal.LinearClassifier("logistic")).fit(table, y)
    wanted = model.predict_proba(table)
    for row in range(0, 60, 7):
        one = table[row : row + 1]
        np.testing.assert_allclose(model.predict_proba(one), wanted[row : row + 1], rtol=1e-12)
        np.testing.assert_allclose(model.predict_proba(pa.Table.from_pandas(one)), wanted[row : row + 1], rtol=1e-12)
        np.testing.assert_allclose(
            model.model_.predict_proba(one.to_dict("records")[0]), wanted[row : row + 1], rtol=1e-12
        )
    encoder = Encoding.of_schema(model.features_.schema_).single.of_one_row
    assert encoder.encode(row_of_record({"size": 1.0})) is None
