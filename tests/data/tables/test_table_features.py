"""Tables with numbers, categories, dates and text: what columns are taken for, and what they become."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import lineal
from lineal import TableFeatures
from lineal.data.schema import Schema
from lineal.data.tables.reader import encode_frame, encode_records
from lineal.errors import DataError, OptionError

WORDS = ["quick", "brown", "foxes", "jump", "over", "lazy", "dogs", "and", "run", "away", "from", "wolves", "today"]


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 300
    return pd.DataFrame({
        "size": rng.normal(50, 10, n), "rare": np.where(rng.random(n) < 0.1, rng.normal(5, 1, n), 0.0),
        "colour": rng.choice(["red", "green", "blue"], n), "open": rng.random(n) < 0.5,
        "day": pd.date_range("2024-02-27", periods=n, freq="D"),
        "note": [" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
    })  # fmt: skip


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def test_kinds_are_found(table):
    features = TableFeatures().fit(table)
    assert features.kinds_ == {
        "size": "number", "rare": "number", "colour": "category", "open": "boolean", "day": "date", "note": "text",
    }  # fmt: skip
    assert features.transform(table).shape == (300, features.n_features_out_)
    assert len(features.get_feature_names_out()) == features.n_features_out_


def test_columns_equal_those_of_scikit_learn(table):
    features = TableFeatures().fit(table)
    X, names = dense(features.transform(table)), features.get_feature_names_out().tolist()
    np.testing.assert_allclose(X[:, names.index("size")], StandardScaler().fit_transform(table[["size"]])[:, 0])
    expected = StandardScaler(with_mean=False).fit_transform(table[["rare"]])[:, 0]
    np.testing.assert_allclose(X[:, names.index("rare")], expected)  # mostly zeros: not centred
    onehot = OneHotEncoder(sparse_output=False).fit_transform(table[["colour"]])
    np.testing.assert_array_equal(X[:, names.index("colour=blue") :][:, :3], onehot)
    np.testing.assert_array_equal(X[:, names.index("open")], table["open"])
    words = TfidfVectorizer(sublinear_tf=True)
    expected = words.fit_transform(table["note"]).toarray()
    assert [name for name in names if name.startswith("note=")] == [f"note={w}" for w in words.get_feature_names_out()]
    np.testing.assert_allclose(X[:, names.index("note=and") :][:, : expected.shape[1]], expected, rtol=1e-6)


def test_dates_by_hand():
    days = pd.to_datetime(["2024-02-29", "1969-12-31", None, "2026-11-19"])
    features = TableFeatures(scale="none").fit(pd.DataFrame({"day": days, "x": [1, 2, 3, 4]}))
    X, names = dense(features.transform(pd.DataFrame({"day": days, "x": 0}))), features.get_feature_names_out().tolist()
    assert X[:, names.index("day: days")].tolist() == [19782, -1, pytest.approx((19782 - 1 + 20776) / 3), 20776]
    assert X[[0, 1, 3], names.index("day: year")].tolist() == [2024, 1969, 2026]
    on = [[name for name, value in zip(names, row) if value == 1 and "=" in name] for row in X]
    assert on == [["day: month=2", "day: weekday=Thu"], ["day: month=12", "day: weekday=Wed"], [],
                  ["day: month=11", "day: weekday=Thu"]]  # fmt: skip
    assert X[:, names.index("day is missing")].tolist() == [0, 0, 1, 0]


def test_times_of_the_day_have_hours_and_zones_become_utc(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,y\n2024-03-01T10:30,0\n2024-03-01 00:15:00,1\n2024-03-01T23:30+01:00,0\n2024-03-01,1\n")
    data = lineal.read(path)
    X, names = dense(data.X), data.feature_names
    assert X[:, names.index("when: hour=0") :].argmax(axis=1).tolist() == [10, 0, 22, 0]
    np.testing.assert_allclose(X[:, 0] - 19783, [10.5 / 24, 0.25 / 24, 22.5 / 24, 0], atol=1e-9)


def test_text_that_is_no_date_later_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("when,y\n2024-03-01,0\n2024-03-02,1\n")
    schema = lineal.read(tmp_path / "t.csv").schema
    (tmp_path / "u.csv").write_text("when,y\n2024-03-01,0\nsoon,1\n")
    with pytest.raises(DataError, match=r"column 'when' had dates in training"):
        lineal.read(tmp_path / "u.csv", schema=schema)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "file"])
def test_every_library_and_files_give_the_same(table, kind, tmp_path):
    features = TableFeatures().fit(table)
    expected = dense(features.transform(table))
    if kind == "file":
        table.assign(y=0).to_parquet(tmp_path / "t.parquet")
        data = lineal.read(tmp_path / "t.parquet", label="y", scale="standard")
        assert data.feature_names == features.get_feature_names_out().tolist()
        np.testing.assert_allclose(dense(data.X), expected, rtol=1e-12)
        return
    given = table
    if kind == "polars":
        given = pytest.importorskip("polars").DataFrame(table.to_dict("list"))
    elif kind == "pyarrow":
        given = pa.Table.from_pandas(table, preserve_index=False)
    np.testing.assert_allclose(dense(features.transform(given)), expected, rtol=1e-12)
    again = TableFeatures().fit(given)
    np.testing.assert_allclose(dense(again.transform(table)), expected, rtol=1e-12)


def test_columns_may_come_in_any_order_with_others_beside_them(table):
    features = TableFeatures().fit(table)
    other = table[table.columns[::-1]].assign(extra=1)
    np.testing.assert_array_equal(dense(features.transform(other)), dense(features.transform(table)))
    with pytest.raises(DataError, match="lacks columns that training had: colour"):
        features.transform(table.drop(columns="colour"))


def test_blocks_of_rows_are_encoded_alike(table):
    features = TableFeatures().fit(table)
    parts = [dense(features.transform(table[start : start + 37])) for start in range(0, 300, 37)]
    np.testing.assert_array_equal(np.vstack(parts), dense(features.transform(table)))


def test_what_was_learned_is_plain_json(table):
    features = TableFeatures(ngram=2).fit(table)
    schema = Schema.from_json(json.loads(json.dumps(features.schema_.to_json())))
    np.testing.assert_array_equal(dense(encode_frame(table, schema)), dense(features.transform(table)))


def test_options_change_the_kinds(table):
    numbers = table.assign(code=np.arange(300) % 7)
    features = TableFeatures(categorical=["code"], text=["colour"], ignore=["day", "rare"]).fit(numbers)
    assert features.kinds_["code"] == "category"
    assert features.kinds_["colour"] == "text"
    assert not {"day", "rare"} & set(features.kinds_)
    names = features.get_feature_names_out().tolist()
    assert [f"code={i}" for i in range(7)] == [name for name in names if name.startswith("code=")]
    with pytest.raises(OptionError, match="'colour' is also the text"):
        TableFeatures(text="colour", categorical="colour").fit(table)
    with pytest.raises(DataError, match="column 'colour' must be numbers, but holds text"):
        TableFeatures(numeric="colour").fit(table)
    with pytest.raises(DataError, match="no such column: text='notes' is unknown: did you mean 'note'"):
        TableFeatures(text="notes").fit(table)


def test_rare_categories_share_a_column_with_new_ones():
    table = pd.DataFrame({"c": ["a"] * 5 + ["b"] * 5 + ["x", "y"], "n": range(12)})
    features = TableFeatures(rare=2).fit(table)
    assert features.get_feature_names_out().tolist() == ["c=a", "c=b", "c is another one", "n"]
    new = pd.DataFrame({"c": ["a", "x", "never seen"], "n": 0})
    np.testing.assert_array_equal(features.transform(new)[:, :3], [[1, 0, 0], [0, 0, 1], [0, 0, 1]])
    plain = TableFeatures().fit(table)
    np.testing.assert_array_equal(plain.transform(new)[:, :4], [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]])
    many = pd.DataFrame({"c": [f"level {i % 150}" for i in range(700)], "n": 0})
    assert TableFeatures(categorical="c").fit(many).n_features_out_ == 102  # of 150 levels, 50 occur 4 times


def test_missing_cells_in_frames():
    table = pd.DataFrame({"n": [1.0, None, 3.0], "c": ["x", None, "y"], "t": ["one two three", None, "two three four"]})
    X = dense(TableFeatures(scale="none").fit_transform(table))
    names = TableFeatures(scale="none").fit(table).get_feature_names_out().tolist()
    assert X[1, names.index("n")] == 2
    assert [X[1, names.index(name)] for name in ("n is missing", "c is missing")] == [1, 1]
    assert not X[1, [j for j, name in enumerate(names) if name.startswith("t=")]].any()
    with pytest.raises(DataError, match=r"the table: row 1 .*column 'n' is missing"):
        TableFeatures(missing="error").fit(table)


def test_only_true_nulls_are_missing_where_formats_have_types(tmp_path):
    table = pa.table({"c": ["NA", "?", "", None], "y": [0, 1, 0, 1]})
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    assert lineal.read(tmp_path / "t.parquet").feature_names == ["c=", "c=?", "c=NA", "c is missing"]
    (tmp_path / "t.jsonl").write_text('{"c": "NA", "y": 0}\n{"c": null, "y": 1}\n')
    assert lineal.read(tmp_path / "t.jsonl").feature_names == ["c=NA", "c is missing"]
    (tmp_path / "t.csv").write_text("c,y\nNA,0\n-,1\n,0\n")
    assert lineal.read(tmp_path / "t.csv").feature_names == ["c=-", "c is missing"]
    assert lineal.read(tmp_path / "t.csv", na="-,none").feature_names == ["c=NA", "c is missing"]


def test_fields_of_objects_are_columns(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        "".join(f'{{"doc": {{"body": "w{i} and some words", "n": {i}}}, "y": {i % 2}}}\n' for i in range(9))
    )
    data = lineal.read(path, text="doc.body")
    assert data.feature_names[:3] == ["doc.n", "doc.body=and", "doc.body=some"]
    np.testing.assert_array_equal(dense(lineal.read(path, schema=data.schema).X), dense(data.X))
    other = tmp_path / "u.jsonl"
    other.write_text('{"doc": {"n": 1}, "y": 0}\n')
    with pytest.raises(DataError, match=r"lacks columns that training had: doc\.body"):
        lineal.read(other, schema=data.schema)


def test_streams_learn_the_same_words(tmp_path):
    rng = np.random.default_rng(1)
    lines = [json.dumps({"t": " ".join(rng.choice(WORDS, 7)), "n": i, "y": i % 2}) for i in range(500)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines) + "\n")
    whole = lineal.read(path, ngram=2, scale="standard")
    blocks = list(lineal.read_blocks(path, ngram=2, scale="standard", block_bytes=4096))
    assert len(blocks) > 3
    assert blocks[0].feature_names == whole.feature_names
    np.testing.assert_allclose(np.vstack([dense(block.X) for block in blocks]), dense(whole.X), atol=1e-12)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"{i} Main Street, town {i % 7}" for i in range(50)], "text"),
        ([f"id{i:06d}" for i in range(150)], "text"),  # nearly all distinct: never one column each
        (["Great Britain and Northern Ireland", "the Netherlands today"] * 20, "category"),
        (["x", "y", "z"], "category"),
        (["2024-01-01", "2024-13-01"], "category"),
        (["2024-01-01", "2024-12-01"], "date"),
    ],
)
def test_text_categories_and_dates_are_told_apart(cells, kind):
    table = pd.DataFrame({"c": cells, "n": range(len(cells))})
    assert TableFeatures().fit(table).kinds_["c"] == kind


def test_constant_and_empty_columns():
    table = pd.DataFrame({"one": [0.1] * 7, "none": [None] * 7, "x": range(7), "huge": [1e300, -1e300] * 3 + [0]})
    X = TableFeatures().fit_transform(table)
    assert np.isfinite(X).all()
    np.testing.assert_allclose(X[:, 0], 0.0, atol=1e-12)


def test_bad_tables_are_named(table):
    with pytest.raises(DataError, match=r"column 'c' of the table mixes types: int \(row 0\), str \(row 1\)"):
        TableFeatures().fit(pd.DataFrame({"c": [1, "x"]}))
    with pytest.raises(DataError, match="expected a table of pandas, polars or PyArrow, found list"):
        TableFeatures().fit([[1, 2]])
    with pytest.raises(DataError, match="0 rows"):
        TableFeatures().fit(table[:0])
    with pytest.raises(DataError, match="column called 3, which is not a text"):
        TableFeatures().fit(pd.DataFrame({3: [1]}))
    with pytest.raises(DataError, match="is inf"):
        TableFeatures().fit_transform(pd.DataFrame({"x": [1.0, np.inf]}))
    with pytest.raises(OptionError, match="scale='unit' is unknown"):
        TableFeatures(scale="unit").fit(table)


def test_scikit_learn_clones_it(table):
    features = clone(TableFeatures(text=["note"], rare=3))
    assert features.get_params()["rare"] == 3
    np.testing.assert_array_equal(dense(features.fit_transform(table)), dense(features.fit(table).transform(table)))


def test_the_same_ngrams_can_be_said_again(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"title": f"a {i} b", "body": f"one two three {i}", "label": "no" if i % 2 else "yes"} for i in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for given, others in (
        ({"ngram": 2, "skips": 1}, [{"ngram": 1}, {"ngram": 3}, {"ngram": "body=2"}, {"skips": 0}]),
        ({"ngram": "body=3"}, [{"ngram": "body=2"}, {"ngram": 3}, {"ngram": "body=3", "skips": 1}]),
        ({"ngram": 1}, [{"ngram": 2}]),
    ):
        data = lineal.read(path, text="title,body", **given)
        again = lineal.read(path, schema=data.schema, text="title,body", **given)
        assert (again.X != data.X).nnz == 0
        for other in others:
            with pytest.raises(OptionError, match="cannot be changed"):
                lineal.read(path, schema=data.schema, **other)


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    """The schema of records with objects, and one of them."""
    rng = np.random.default_rng(0)
    rows = [
        {"a": {"b": rng.normal(), "c": {"d": "xy"[i % 2]}}, "z": float(i), "label": "pq"[i % 3 == 0]} for i in range(30)
    ]
    path = tmp_path_factory.mktemp("nested") / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return lineal.read(path, label="label").schema, rows[0]


def encoded(rows, schema):
    """X of records, of a table, or of a file."""
    if isinstance(rows, list):
        return dense(encode_records(rows, schema))
    return dense(lineal.read(rows, schema=schema).X if isinstance(rows, Path) else encode_frame(rows, schema))


@pytest.mark.parametrize("gone", [{"a": None}, {"a": {}}, {"a": {"b": None, "c": None}}, {"a": {"b": None, "c": {}}}])
def test_fields_of_objects_that_are_missing_are_missing(nested, tmp_path, gone):
    schema, row = nested
    given, path = {**gone, "z": 3.0}, tmp_path / "rows.jsonl"
    (expected,) = encoded([{"a": {"b": None, "c": {"d": None}}, "z": 3.0}], schema)
    path.write_text(json.dumps(given) + "\n")
    table = pa.table({name: [value] for name, value in given.items()})
    for rows in ([given], [given, given], [row, given], path, table, table.to_pandas()):
        np.testing.assert_array_equal(encoded(rows, schema)[-1], expected)
    for column in (pa.nulls(1), pa.array([{"b": None, "c": None}])):
        parquet.write_table(pa.table({"a": column, "z": [3.0]}), tmp_path / "t.parquet")
        np.testing.assert_array_equal(encoded(tmp_path / "t.parquet", schema), [expected])


def test_records_without_any_column_are_refused(nested, tmp_path):
    schema, row = nested
    path = tmp_path / "rows.jsonl"
    for odd in ({}, {"zz": 1}):
        path.write_text(json.dumps(odd) + "\n")
        for rows, name in (([odd], "the table"), ([row, odd], "record 1"), ([odd, row], "record 0"), (path, "jsonl")):
            with pytest.raises(DataError, match=f"{name} lacks columns that training had: a.b, a.c.d, z"):
                encoded(rows, schema)
    for odd in ({"z": 3.0}, {"a": {"b": 1.0}, "z": 3.0}, {"a": 1.0, "z": 3.0}):
        with pytest.raises(DataError, match="the table lacks columns that training had: a"):
            encoded([odd], schema)
