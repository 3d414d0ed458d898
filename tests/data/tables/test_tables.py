"""Tables: what each kind of column becomes, what a schema repeats, and what every malformed file says."""

from __future__ import annotations

import gzip
import json
import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import sparse

import lineal
from lineal.data.schema import Schema
from lineal.data.tables import csv, reader, wide
from lineal.data.tables.hashing import hash_strings
from lineal.errors import DataError, LinealError, OptionError, ParseError

SHARED = Path(os.environ.get("LINEAL_TEST_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))

PEOPLE = "age,job,hours,label\n30,cook,40,yes\n?,smith,20,no\n50,,0,yes\n20,cook,10.5,no\n"


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


# ---------------------------------------------------------------------------------------------- encoding


def test_numbers_are_dense_columns(tmp_path):
    data = lineal.read(write(tmp_path, "t.csv", "a,b,label\n1,2.5,0\n-3,4,1\n"))
    assert isinstance(data.X, np.ndarray)
    np.testing.assert_array_equal(data.X, [[1, 2.5], [-3, 4]])
    np.testing.assert_array_equal(data.y, [0, 1])
    assert data.y.dtype == np.int64
    assert data.feature_names == ["a", "b"]
    assert data.schema.format == "table"
    assert data.schema.settings["label"] == "label"


@pytest.mark.parametrize(
    ("missing", "expected", "names"),
    [
        ("zero", [[30, 1, 0, 40], [0, 0, 1, 20], [50, 0, 0, 0], [20, 1, 0, 10.5]],
         ["age", "job=cook", "job=smith", "hours"]),
        ("mean", [[30, 1, 0, 40], [100 / 3, 0, 1, 20], [50, 0, 0, 0], [20, 1, 0, 10.5]],
         ["age", "job=cook", "job=smith", "hours"]),
        ("indicator", [[30, 0, 1, 0, 0, 40], [100 / 3, 1, 0, 1, 0, 20], [50, 0, 0, 0, 1, 0], [20, 0, 1, 0, 0, 10.5]],
         ["age", "age is missing", "job=cook", "job=smith", "job is missing", "hours"]),
    ],
)  # fmt: skip
def test_missing_cells(tmp_path, missing, expected, names):
    data = lineal.read(write(tmp_path, "t.csv", PEOPLE), missing=missing)
    np.testing.assert_array_equal(dense(data.X), expected)
    assert data.feature_names == names
    np.testing.assert_array_equal(data.y, ["yes", "no", "yes", "no"])
    again = lineal.read(tmp_path / "t.csv", schema=Schema.from_json(json.loads(json.dumps(data.schema.to_json()))))
    np.testing.assert_array_equal(dense(again.X), dense(data.X))
    assert again.schema == data.schema


def test_missing_cells_can_be_an_error(tmp_path):
    with pytest.raises(DataError, match=r"t.csv: row 1 .*column 'age' is missing; choose missing='zero', 'mean'"):
        lineal.read(write(tmp_path, "t.csv", PEOPLE), missing="error")
    with pytest.raises(DataError, match=r"row 2 .*column 'job' is missing"):
        lineal.read(tmp_path / "t.csv", ignore="age", missing="error")


def test_unseen_texts_are_zero_and_counted(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "a,c,label\n1,x,0\n2,y,1\n"))
    test = lineal.read(write(tmp_path, "u.csv", "c,extra,a\nz,9,5\ny,9,6\nz,9,7\n"), schema=train.schema)
    np.testing.assert_array_equal(dense(test.X), [[5, 0, 0], [6, 0, 1], [7, 0, 0]])
    assert test.y is None
    assert test.schema.settings["unseen"] == {"c": 2}
    assert "unseen" not in train.schema.settings


def test_columns_that_are_gone(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "a,b,c,label\n1,2,3,0\n2,3,4,1\n"))
    with pytest.raises(DataError, match="lacks columns that training had: b, c"):
        lineal.read(write(tmp_path, "u.csv", "a\n1\n"), schema=train.schema)


def test_many_texts_make_csr_and_few_make_dense(tmp_path):
    lines = "".join(f"v{i % 40},{i % 7}\n" for i in range(400))
    wide = lineal.read(write(tmp_path, "w.csv", "c,label\n" + lines))
    assert sparse.issparse(wide.X)
    assert wide.X.shape == (400, 40)
    assert wide.X.indices.dtype == np.int32
    assert wide.X.has_canonical_format
    assert wide.feature_names == sorted(f"c={f'v{i}'}" for i in range(40))
    few = lineal.read(write(tmp_path, "f.csv", "c,label\na,1\nb,2\n"))
    assert isinstance(few.X, np.ndarray)


def test_hashed_text(tmp_path):
    path = write(tmp_path, "t.csv", "n,c,e,label\n1,x,x,0\n0,y,,1\n")
    data = lineal.read(path, levels="hash", bits=10, missing="indicator")
    assert data.X.shape == (2, 1 + 1024)
    assert data.feature_names is None
    where = 1 + hash_strings(pa.array(["c=x", "e=x", "c=y", "e is missing"]), 10)
    expected = np.zeros((2, 1025))
    expected[0, 0] = 1
    for row, column in ((0, where[0]), (0, where[1]), (1, where[2]), (1, where[3])):
        expected[row, column] += 1
    np.testing.assert_array_equal(data.X.toarray(), expected)
    assert data.X.has_sorted_indices
    again = lineal.read(path, schema=data.schema)
    np.testing.assert_array_equal(again.X.toarray(), expected)


def test_hash_is_the_same_everywhere():
    def twin(text: bytes) -> int:  # FNV-1a, then SplitMix64's finaliser
        mask = 2**64 - 1
        h = 0xCBF29CE484222325
        for byte in text:
            h = ((h ^ byte) * 0x100000001B3) & mask
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & mask
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & mask
        return (h ^ (h >> 31)) & 0x3FFFF

    texts = ["", "a", "job=cook", "naïve=ü", "x" * 1000]
    assert hash_strings(pa.array(texts), 18).tolist() == [twin(text.encode()) for text in texts]
    assert hash_strings(pa.array(texts)[2:4], 18).tolist() == [twin(text.encode()) for text in texts[2:4]]


def test_colliding_hashes_add_up(tmp_path):
    data = lineal.read(write(tmp_path, "t.csv", "a,b,c,label\nx,x,x,0\ny,z,w,1\n"), levels="hash", bits=1)
    assert data.X.shape == (2, 2)
    np.testing.assert_array_equal(data.X.sum(axis=1), [3, 3])
    assert data.X.has_canonical_format


def test_float32(tmp_path):
    path = write(tmp_path, "t.csv", "a,c,label\n0.1,x,0\n2,y,1\n")
    data = lineal.read(path, dtype="float32")
    assert data.X.dtype == np.float32
    assert lineal.read(path, schema=data.schema).X.dtype == np.float32
    assert lineal.read(path, schema=data.schema, dtype="float64").X.dtype == np.float64


def test_infinity_names_its_column(tmp_path):
    with pytest.raises(DataError, match=r"t.csv: row 1 \(counted from 0\), line 3, column 'b' is inf"):
        lineal.read(write(tmp_path, "t.csv", "a,b,label\n1,2,0\n1,inf,1\n"))
    with pytest.raises(DataError, match="column 'a' is inf"):
        lineal.read(write(tmp_path, "u.csv", "a,label\n1e300,0\n"), dtype="float32")


# ---------------------------------------------------------------------------------------------- labels, weights


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2"], np.array([1, 2])),
        (["1.5", "2"], np.array([1.5, 2])),
        (["true", "false"], np.array([True, False])),
        (["ja", "nein"], np.array(["ja", "nein"])),
        (["1", "x"], np.array(["1", "x"])),
    ],
)
def test_label_types(tmp_path, cells, expected):
    data = lineal.read(write(tmp_path, "t.csv", f"a,y\n1,{cells[0]}\n2,{cells[1]}\n"))
    np.testing.assert_array_equal(data.y, expected)
    assert data.y.dtype == expected.dtype


@pytest.mark.parametrize(
    ("label", "chosen", "how"),
    [
        (None, "Target", "by its name"), ("b", "b", "given"), ("0", "a", "given"), (0, "a", "given"),
        ("-1", "c", "given"), (-1, "c", "given"),
    ],
)  # fmt: skip
def test_which_column_is_the_label(tmp_path, label, chosen, how):
    path = write(tmp_path, "t.csv", "a,b,Target,c\n1,2,3,4\n5,6,7,8\n")
    data = lineal.read(path, label=label)
    assert (data.schema.settings["label"], data.schema.settings["label_chosen"]) == (chosen, how)
    assert chosen not in data.feature_names


def test_last_column_is_the_label_and_an_empty_name_means_none(tmp_path):
    path = write(tmp_path, "t.csv", "a,b\n1,2\n5,6\n")
    assert lineal.read(path).schema.settings["label_chosen"] == "the last column"
    data = lineal.read(path, label="")
    assert data.y is None
    assert data.X.shape == (2, 2)


def test_unknown_columns_name_the_nearest(tmp_path):
    path = write(tmp_path, "t.csv", "age,income\n1,2\n")
    with pytest.raises(DataError, match="label='incom' is unknown: did you mean 'income'"):
        lineal.read(path, label="incom")
    with pytest.raises(DataError, match="ignore='aeg' is unknown: did you mean 'age'"):
        lineal.read(path, ignore="aeg")


def test_missing_label(tmp_path):
    with pytest.raises(DataError, match=r"t.csv: row 1 .*the label 'y' is missing"):
        lineal.read(write(tmp_path, "t.csv", "a,y\n1,0\n2,\n"))
    with pytest.raises(DataError, match=r"row 2 .*the label 'y' is missing"):
        lineal.read(write(tmp_path, "t.csv", "a,y\n1,p\n2,q\n3,?\n"))


def test_weights(tmp_path):
    data = lineal.read(write(tmp_path, "t.csv", "w,a,y\n0.5,1,0\n2,3,1\n"), weight="w")
    np.testing.assert_array_equal(data.weights, [0.5, 2])
    assert data.feature_names == ["a"]
    with pytest.raises(DataError, match=r"row 1 .*the weight 'w' is -2.0"):
        lineal.read(write(tmp_path, "t.csv", "w,a,y\n0.5,1,0\n-2,3,1\n"), weight="w")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("labels", [[None, None], ["x", None], ["1", "x"], [-1, -2], None])
def test_rows_to_predict_need_no_labels(tmp_path, kind, labels):
    train = lineal.read(write(tmp_path, "t.csv", "w,a,c,y\n1,1,x,0\n2,2,z,1\n"), weight="w")
    columns = {"a": [5, 6], "c": ["z", "x"]} | ({} if labels is None else {"y": labels, "w": labels})
    table, path = pa.table(columns), tmp_path / f"u.{kind}"
    if kind == "csv":
        rows = [",".join("" if cell is None else str(cell) for cell in row.values()) for row in table.to_pylist()]
        path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        write_table(table, path)
    blocks = list(lineal.read_blocks(path, schema=train.schema, labels=False))
    for data in (lineal.read(path, schema=train.schema, labels=False), blocks[0]):
        np.testing.assert_array_equal(data.X, [[5, 0, 1], [6, 1, 0]])
        assert data.y is None
        assert data.weights is None
        assert data.schema == train.schema
    data = lineal.read(path, label="y", weight="w", labels=False)
    assert data.X.shape == (2, 3)
    assert data.y is None
    assert data.weights is None


def test_labels_of_any_type_do_not_matter_where_none_are_read(tmp_path):
    schema = lineal.read(write(tmp_path, "t.jsonl", '{"a":1,"y":0}\n')).schema
    path = write(tmp_path, "u.jsonl", '{"a":2,"y":"x"}\n{"a":3,"y":[1]}\n')
    for data in (lineal.read(path, schema=schema, labels=False), lineal.read(path, label="y", labels=False)):
        np.testing.assert_array_equal(data.X, [[2], [3]])
    path = write(tmp_path, "h.csv", "e,1,2,1\np,3,4,1\n")
    train = lineal.read(path, header="no", label="0", weight="3")
    bare = lineal.read(write(tmp_path, "i.csv", "1,2\n3,4\n"), schema=train.schema, labels=False)
    np.testing.assert_array_equal(bare.X, train.X)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_lists_are_several_labels(tmp_path, kind):
    topics, numbers = [["b", "a"], [], ["c", "c"]], [1.0, 2.0, 3.0]
    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps({"topics": t, "n": n}) + "\n" for t, n in zip(topics, numbers)))
    else:
        table = pa.table({"topics": pa.array(topics, pa.list_(pa.string())), "n": numbers})
        write_table(table, path)
    data = lineal.read(path, label="topics")
    assert data.is_multilabel
    assert data.class_names == ["a", "b", "c"]
    assert data.y.dtype == bool
    np.testing.assert_array_equal(data.y.toarray(), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    again = lineal.read(path, schema=data.schema)
    np.testing.assert_array_equal(again.y.toarray(), data.y.toarray())


def test_missing_list_label(tmp_path):
    path = write(tmp_path, "t.jsonl", '{"n": 1, "t": ["a"]}\n{"n": 2, "t": null}\n')
    with pytest.raises(DataError, match=r"row 1 .*the label 't' is missing"):
        lineal.read(path)


# ---------------------------------------------------------------------------------------------- formats


def write_table(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_arrow_types(tmp_path, kind):
    table = pa.table(
        {
            "i": pa.array([1, 2], pa.int8()), "u": pa.array([3, 4], pa.uint64()), "f": pa.array([0.5, 1], pa.float32()),
            "b": [True, False], "d": [Decimal("1.25"), Decimal("2.50")],
            "s": pa.array(["x", "y"], pa.large_string()), "k": pa.array(["p", "q"]).dictionary_encode(),
            "label": pa.array([7, 9], pa.int16()),
        }
    )  # fmt: skip
    write_table(table, tmp_path / f"t.{kind}")
    data = lineal.read(tmp_path / f"t.{kind}")
    np.testing.assert_array_equal(dense(data.X), [[1, 3, 0.5, 1, 1.25, 1, 0, 1, 0], [2, 4, 1, 0, 2.5, 0, 1, 0, 1]])
    np.testing.assert_array_equal(data.y, [7, 9])
    assert data.feature_names == ["i", "u", "f", "b", "d", "s=x", "s=y", "k=p", "k=q"]


@pytest.mark.parametrize(
    ("column", "shown"),
    [(pa.array([[1.0], [2.0]]), "lists"),
     (pa.array([0, 1], pa.time32("s")), "dates or times")],
)  # fmt: skip
def test_columns_that_are_neither_numbers_nor_text(tmp_path, column, shown):
    write_table(pa.table({"odd": column, "a": [1, 2], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=rf"column 'odd' holds {shown}.*leave it out with ignore=odd"):
        lineal.read(tmp_path / "t.parquet")
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.parquet", ignore="odd").X, [[1], [2]])


def test_json_lines(tmp_path):
    text = '{"a": 1, "s": "x", "label": "p"}\n\n{"s": "y", "label": "q", "a": 2.5}\n'
    data = lineal.read(write(tmp_path, "t.jsonl", text))
    np.testing.assert_array_equal(dense(data.X), [[1, 1, 0], [2.5, 0, 1]])
    np.testing.assert_array_equal(data.y, ["p", "q"])


@pytest.mark.parametrize("depth", [1_500, 100_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"b":', "}"), ('{"b":\n', "}"), ('{"b":\n', "")])
def test_json_that_is_too_deep(tmp_path, depth, opens, closes):
    """pyarrow calls itself for every level: so many would end the process without a word."""
    text = '{"a":' + depth * opens + "1" + depth * closes + ',"label":"x"}\n{"a":1,"label":"y"}\n'
    with pytest.raises(ParseError, match=r"t.jsonl:\d+:\d+: found (lists or objects nested|invalid JSON)"):
        lineal.read(write(tmp_path, "t.jsonl", text), label="label")
    if "\n" not in opens:
        data = lineal.read(tmp_path / "t.jsonl", label="label", max_bad_lines=1)
        assert data.y.tolist() == ["y"]


def test_json_with_brackets_in_texts(tmp_path):
    texts = ["[" * (i % 5) for i in range(3_000)]
    lines = "".join(f'{{"a":{i},"t":"x{text}","label":{i % 2}}}\n' for i, text in enumerate(texts))
    data = lineal.read(write(tmp_path, "t.jsonl", lines), label="label")
    assert data.feature_names == ["a", "t=x", "t=x[", "t=x[[", "t=x[[[", "t=x[[[["]
    assert data.X.shape == (3_000, 6)


@pytest.mark.parametrize("text", [r"}{[\\\"{[[", r"\\", r"\\\\\"]]{"])
def test_brackets_and_escapes_in_texts_need_no_look_at_each_line(text, tmp_path, monkeypatch):
    rows = [{"a": i, "t": text * (i % 7), "label": i % 2} for i in range(3_000)]
    path = write(tmp_path, "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("lineal.data.tables.json_lines._classify", None)
    data = lineal.read(path, label="label", categorical="t")
    assert data.X.shape == (3_000, 8)
    assert data.X[:, 1:].sum() == 3_000


def test_quotes_that_are_not_closed_hide_no_depth(tmp_path):
    deep = '{"a":' + 1_500 * "[" + 1_500 * "]" + "}"
    for lines in ('{"a": "x}\n' + deep, '{"a": 1}\n{"b": "\n' + deep + '\n"}', '{"a": 1, "b": \\"}\n' + deep):
        path = write(tmp_path, "t.jsonl", '{"a": 0}\n' + lines + "\n")
        with pytest.raises(ParseError):
            lineal.read(path, label="a")


def test_json_fields_that_come_and_go(tmp_path):
    text = '{"a": 1, "label": 0}\n{"b": 2, "label": 1}\n'
    path = write(tmp_path, "t.jsonl", text)
    for options in ({}, {"block_bytes": 20}):  # in one piece, and a line at a time
        whole = np.vstack([block.X for block in lineal.read_blocks(path, missing="zero", **options)])
        np.testing.assert_array_equal(whole, [[1, 0], [0, 2]])
        with pytest.raises(DataError, match=r"column '[ab]' is missing"):
            list(lineal.read_blocks(path, missing="error", **options))


def test_json_label_that_comes_and_goes(tmp_path):
    path = write(tmp_path, "t.jsonl", '{"a": 1, "label": 0}\n{"a": 2}\n')
    for options in ({}, {"block_bytes": 20}):
        with pytest.raises(DataError, match=r"row 1 .*the label 'label' is missing"):
            list(lineal.read_blocks(path, **options))
    schema = lineal.read(write(tmp_path, "u.jsonl", '{"a": 1, "label": 0}\n')).schema
    with pytest.raises(DataError, match="from row 1 on, the label is missing or new"):
        list(lineal.read_blocks(path, schema=schema, block_bytes=20))
    assert lineal.read(write(tmp_path, "v.jsonl", '{"a": 1}\n{"a": 2}\n'), schema=schema).y is None
    with pytest.raises(DataError, match="lacks columns that training had: a"):
        lineal.read(write(tmp_path, "w.jsonl", '{"b": 1}\n{"c": 2}\n'), schema=schema)


def test_malformed_json_names_its_line(tmp_path):
    path = write(tmp_path, "t.jsonl", '{"a": 1, "y": 0}\n\n{"a": 2, "y": }\n{"a": 3, "y": 1}\n')
    with pytest.raises(ParseError, match=r"t.jsonl:3:15: found invalid JSON"):
        lineal.read(path)
    data = lineal.read(path, max_bad_lines=1)
    assert data.bad_lines == 1
    np.testing.assert_array_equal(data.X, [[1], [3]])
    path = write(tmp_path, "g.jsonl", '{"a": 1, "y": 0}\n{"a": 2, "y": 1}inf\n{"a": 3, "y": 1}\n')
    with pytest.raises(ParseError, match=r"g.jsonl:2:17: found invalid JSON"):
        lineal.read(path)
    np.testing.assert_array_equal(lineal.read(path, max_bad_lines=1).X, [[1], [3]])


BAD_JSON = {
    "[1,2]": "1: found a list",
    "5": "1: found a number",
    '"x"': "1: found text",
    "null": "1: found null",
    '{"a":1,"a":2,"y":0}': "1: found invalid JSON .the name 'a' twice",
    '{"a":1e999,"y":0}': "1: found invalid JSON .the number 1e999 is too large",
    '{"a":1,"y":0} {"a":2,"y":0}': "15: found invalid JSON .Extra data",
    '{"a":"é", "y" 0}': "16: found invalid JSON",
    '{"a":"x","y":0}': "1: found text in column 'a', expected a number, as in other lines",
    '{"a":true,"y":0}': "1: found true or false in column 'a', expected a number",
    '{"a":"\\ud800","y":0}': "1: found ",
}


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
@pytest.mark.parametrize("line", BAD_JSON)
def test_the_bad_json_line_is_blamed_and_no_other(tmp_path, line, block_bytes):
    text = '{"a":1,"y":0}\n\n{"a":2,"y":1}\n' + line + '\n{"a":3,"y":1}\n' + line + "\n"
    path = write(tmp_path, "t.jsonl", text)
    with pytest.raises(ParseError, match=f"t.jsonl:4:{BAD_JSON[line]}"):
        list(lineal.read_blocks(path, block_bytes=block_bytes))
    with pytest.raises(ParseError, match=f"t.jsonl:6:{BAD_JSON[line]}"):
        list(lineal.read_blocks(path, block_bytes=block_bytes, max_bad_lines=1))
    blocks = list(lineal.read_blocks(path, block_bytes=block_bytes, max_bad_lines=2))
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), [[1], [2], [3]])
    assert sum(block.bad_lines for block in blocks) == 2


def test_a_first_json_line_that_is_null(tmp_path):
    """pyarrow crashes on it."""
    path = write(tmp_path, "t.jsonl", 'null\n{"a":1,"y":0}\n')
    with pytest.raises(ParseError, match=r"t.jsonl:1:1: found null"):
        lineal.read(path, format="jsonl")
    assert len(lineal.read(path, max_bad_lines=1)) == 1


def test_many_bad_json_lines_are_found_in_one_go(tmp_path, monkeypatch):
    from lineal.data.tables import json_lines

    calls = []
    read = json_lines._read
    monkeypatch.setattr(json_lines, "_read", lambda view: calls.append(1) or read(view))
    path = write(tmp_path, "t.jsonl", '{"a":1,"y":0}\n[1]\n{"a":}\n' * 1000)
    data = lineal.read(path, max_bad_lines=2000)
    assert (len(data), data.bad_lines) == (1000, 2000)
    assert len(calls) <= 2


def test_text_in_json_where_training_had_numbers(tmp_path):
    schema = lineal.read(write(tmp_path, "t.jsonl", '{"a":1,"y":0}\n')).schema
    path = write(tmp_path, "u.jsonl", '{"a":"x","z":1}\n{"a":2,"z":"anything"}\n')
    with pytest.raises(ParseError, match=r"u.jsonl:1:1: found text in column 'a', expected a number"):
        lineal.read(path, schema=schema)
    np.testing.assert_array_equal(lineal.read(path, schema=schema, max_bad_lines=1).X, [[2]])
    write(tmp_path, "v.jsonl", '{"a":"5"}\n')
    np.testing.assert_array_equal(lineal.read(tmp_path / "v.jsonl", schema=schema).X, [[5]])


@pytest.mark.parametrize("text", ['{"a": 1,\n"y": 0}\n{"a": 2, "y": 1}\n', '{"a": 1, "y": 0} {"a": 2, "y": 1}\n'])
def test_json_objects_that_are_not_one_a_line(tmp_path, text):
    with pytest.raises(ParseError, match=r"t.jsonl:1:(9|18): found invalid JSON .*, expected one JSON object per line"):
        lineal.read(write(tmp_path, "t.jsonl", text))


def test_text_that_is_not_utf8(tmp_path):
    lines = b'{"s": "a", "t": ["p"], "y": 0}\n{"s": "\xff", "t": ["\xff"], "y": 1}\n'
    path = write(tmp_path, "t.jsonl", lines)
    with pytest.raises(DataError, match="column 's' is not UTF-8"):
        lineal.read(path, ignore="t")
    with pytest.raises(DataError, match="label 't' is not UTF-8"):
        lineal.read(path, label="t", ignore="s")


def test_a_json_array_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"t.json.*one JSON object per line"):
        lineal.read(write(tmp_path, "t.json", '[{"a": 1}, {"a": 2}]\n'))


# ---------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_found(tmp_path, delimiter):
    text = (
        '"a, b;c|d";b;y\n1;2;0\n'.replace(";", delimiter)
        if delimiter == ";"
        else "a;b;y\n1;2;0\n".replace(";", delimiter)
    )
    data = lineal.read(write(tmp_path, "t.csv", text))
    np.testing.assert_array_equal(data.X, [[1, 2]])


def test_given_delimiter(tmp_path):
    np.testing.assert_array_equal(lineal.read(write(tmp_path, "t.csv", "a:y\n1:0\n"), delimiter=":").X, [[1]])
    with pytest.raises(OptionError, match="delimiter='::' must be one ASCII character"):
        lineal.read(tmp_path / "t.csv", delimiter="::")


def test_quotes_newlines_byte_order_mark_and_spaces(tmp_path):
    text = b'\xef\xbb\xbf"a","text, with comma",y\r\n1,"two\nlines",0\r\n2, plain ,1\r\n'
    data = lineal.read(write(tmp_path, "t.csv", text))
    assert data.feature_names == ["a", "text, with comma=plain", "text, with comma=two\nlines"]
    np.testing.assert_array_equal(data.X, [[1, 0, 1], [2, 1, 0]])


@pytest.mark.parametrize(
    ("first", "has_header"),
    [("1,2,3", False), ("5.1,3.5,Iris-setosa", False), ("0,tcp,0", False), ("a,b,y", True), ("0,1,label", True)],
)
def test_header_is_found(tmp_path, first, has_header):
    data = lineal.read(write(tmp_path, "t.csv", f"{first}\n1,2,3\n"))
    assert len(data) == (1 if has_header else 2)
    assert data.schema.settings["header"] is has_header
    if not has_header:
        assert data.schema.settings["names"] == ["f0", "f1", "f2"]


def test_header_as_told(tmp_path):
    path = write(tmp_path, "t.csv", "p,x\ne,b\n")
    assert len(lineal.read(path, header="no")) == 2
    assert len(lineal.read(path, header="yes")) == 1
    with pytest.raises(DataError, match=r"two columns have the name 'p'; if the first line is data, say header='no'"):
        lineal.read(write(tmp_path, "u.csv", "p,x,p\ne,b,c\n"))


def test_label_may_be_absent_without_header(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "e,1,2\np,3,4\n"), header="no", label="0")
    test = lineal.read(write(tmp_path, "u.csv", "1,2\n3,4\n"), schema=train.schema)
    np.testing.assert_array_equal(test.X, train.X)
    assert test.y is None


def test_ragged_rows(tmp_path):
    path = write(tmp_path, "t.csv", "a,b,y\n1,2,0\n3,4\n5,6,1\n7,8,9,1\n")
    with pytest.raises(ParseError, match=r"t.csv:3:1: found 2 cells, expected 3"):
        lineal.read(path)
    with pytest.raises(ParseError, match=r"t.csv:5:1: found 4 cells, expected 3"):
        lineal.read(path, max_bad_lines=1)
    data = lineal.read(path, max_bad_lines=2)
    assert data.bad_lines == 2
    np.testing.assert_array_equal(data.X, [[1, 2], [5, 6]])
    assert sum(block.bad_lines for block in lineal.read_blocks(path, max_bad_lines=2)) == 2


def test_type_that_changes_late(tmp_path):
    """pyarrow infers types from the first megabyte; these columns change after it."""
    n = 150_000
    text = "i,f,t,y\n" + "1,2,3,0\n" * n + "1,2.5,x,0.5\n" * 2000
    path = write(tmp_path, "t.csv", text)
    data = lineal.read(path)
    assert data.feature_names == ["i", "f", "t=3", "t=x"]
    np.testing.assert_array_equal(data.X[-1], [1, 2.5, 0, 1])
    np.testing.assert_array_equal(data.X[0], [1, 2, 1, 0])
    assert data.y.dtype == np.float64
    blocks = list(lineal.read_blocks(path, block_bytes=1 << 20))
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), data.X)
    assert blocks[0].schema == data.schema


def test_text_where_training_had_numbers(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "a,y\n1,0\n2,1\n"))
    with pytest.raises(DataError, match=r"u.csv:3:1: found 'x' in column 'a', expected a number"):
        lineal.read(write(tmp_path, "u.csv", "a,y\n1,0\nx,1\n"), schema=train.schema)
    path = write(tmp_path, "u.csv", "a,y\n1,0\n\nx,1\n 3 ,1\n4,0.5\n5\n6,1\n")
    for blocks in ([lineal.read(path, schema=train.schema, max_bad_lines=3)],
                   list(lineal.read_blocks(path, schema=train.schema, max_bad_lines=3))):  # fmt: skip
        np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), [[1], [3], [6]])
        assert sum(block.bad_lines for block in blocks) == 3
    with pytest.raises(ParseError, match=r"u.csv:6:3: found '0.5' in column 'y', expected an integer"):
        lineal.read(path, schema=train.schema, max_bad_lines=2)


def test_lines_are_counted_in_the_file(tmp_path):
    start = b'\xef\xbb\xbf\n\r\na,s,y\n1,"two\nlines, ""really""",0\n\n'
    for ending in (b"", b"\r"):
        bad = start + b"2,x\n"
        with pytest.raises(ParseError, match=r"t.csv:7:1: found 2 cells, expected 3"):
            lineal.read(write(tmp_path, "t.csv", bad.replace(b"\n", ending + b"\n").replace(b"\r\r", b"\r")))
    path = write(tmp_path, "t.csv.gz", gzip.compress(start + b"1,2\n\n1,2,3,4\n"))
    with pytest.raises(ParseError, match=r"t.csv.gz:9:1: found 4 cells, expected 3"):
        lineal.read(path, max_bad_lines=1)
    schema = lineal.read(write(tmp_path, "t.csv", start + b"3,x,1\n")).schema
    path = write(tmp_path, "u.csv", start + b'4,x,1\n1,"two\n\nlines",?x\n')
    with pytest.raises(ParseError, match=r"u.csv:10:8: found '\?x' in column 'y', expected an integer"):
        lineal.read(path, schema=schema)
    with pytest.raises(DataError, match=r"v.csv: row 2 \(counted from 0\), line 8: the label 'y' is missing"):
        lineal.read(write(tmp_path, "v.csv", start + b"5,z,1\n5,z,\n"))
    with pytest.raises(DataError, match=r"w.csv: row 1 \(counted from 0\), line 8: column 'a' is missing"):
        lineal.read(write(tmp_path, "w.csv", start + b"5,z\n?,z,1\n"), max_bad_lines=1, missing="error")


@pytest.mark.parametrize("n", [300, 150_000])  # within what types are inferred from, and after it
def test_a_typo_does_not_make_a_column_text(tmp_path, n):
    lines = [f"{i}.5,{i % 3}" for i in range(n)]
    lines[n - 50], lines[n - 20] = "O.5,1", "1.5,l"
    path = write(tmp_path, "t.csv", "a,y\n\n" + "\n".join(lines) + "\n")
    with pytest.raises(ParseError, match=rf"t.csv:{n - 47}:1: found 'O.5' in column 'a', expected a number, as in the"):
        lineal.read(path)
    with pytest.raises(ParseError, match=rf"t.csv:{n - 17}:5: found 'l' in column 'y', expected an integer, as in"):
        list(lineal.read_blocks(path, max_bad_lines=1))
    data = lineal.read(path, max_bad_lines=2)
    assert (data.X.shape, data.bad_lines, data.y.dtype) == ((n - 2, 1), 2, np.int64)
    blocks = list(lineal.read_blocks(path, max_bad_lines=2, block_bytes=1 << 20))
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), data.X)
    assert sum(block.bad_lines for block in blocks) == 2


def test_text_among_numbers_is_text_where_there_is_enough_of_it(tmp_path):
    lines = "".join(f"{i % 7},{i % 2}\n" for i in range(300))
    assert lineal.read(write(tmp_path, "t.csv", "a,y\n" + lines + "x,1\n" * 4)).X.shape == (304, 8)
    assert lineal.read(write(tmp_path, "t.csv", "a,y\n" + lines[: 4 * 19] + "x,1\n")).X.shape == (20, 8)


def test_weights_that_are_text(tmp_path):
    with pytest.raises(ParseError, match=r"t.csv:3:1: found 'x' in column 'w', expected a number"):
        lineal.read(write(tmp_path, "t.csv", "w,a,y\n1,1,0\nx,3,1\n"), weight="w")
    assert lineal.read(tmp_path / "t.csv", weight="w", max_bad_lines=1).weights.tolist() == [1]


def test_missing_cells_with_a_schema_are_a_matter_of_training(tmp_path):
    schema = lineal.read(write(tmp_path, "t.csv", "a,y\n1,0\n2,1\n"), missing="error").schema
    with pytest.raises(DataError, match=r"row 1 .*, line 3: column 'a' is missing; .* train with missing='zero'"):
        lineal.read(write(tmp_path, "u.csv", "a,y\n1,0\n?,1\n"), schema=schema)


def test_large_cells(tmp_path):
    path = write(tmp_path, "t.csv", "a,s,y\n1,x,0\n2," + "x" * (3 << 20) + ",1\n3,x,1\n")
    data = lineal.read(path)
    assert data.X.shape == (3, 3)
    assert lineal.read(path, schema=data.schema).X.shape == (3, 3)
    assert sum(len(block) for block in lineal.read_blocks(path)) == 3
    assert sum(len(block) for block in lineal.read_blocks(path, schema=data.schema)) == 3


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named(tmp_path, encoding):
    with pytest.raises(DataError, match=r"t.csv is UTF-16 text: convert it to UTF-8"):
        lineal.read(write(tmp_path, "t.csv", "\ufeffa,y\n1,0\n".encode(encoding)))


def test_other_encodings_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"column 's' is not UTF-8"):
        lineal.read(write(tmp_path, "t.csv", "a,s,y\n1,é,0\n".encode("latin-1")))


@pytest.mark.parametrize(("text", "message"), [("", "is empty"), ("\n\n", "is empty"), ("a,b,y\n", "has no rows")])
def test_nothing_to_read(tmp_path, text, message):
    with pytest.raises(DataError, match=f"t.csv {message}"):
        lineal.read(write(tmp_path, "t.csv", text))
    with pytest.raises(DataError, match=f"t.csv {message}"):
        list(lineal.read_blocks(tmp_path / "t.csv"))


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather"])
@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0garbage", b"PAR1garbagePAR1", b"\0" * 1000])
def test_damaged_binary_tables(tmp_path, name, content):
    with pytest.raises(DataError, match=name):
        lineal.read(write(tmp_path, name, content))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_truncated_binary_tables(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    write_table(pa.table({"a": np.arange(1000.0), "s": ["x", "y"] * 500, "y": [0, 1] * 500}), path)
    content = path.read_bytes()
    for size in range(0, len(content), max(1, len(content) // 40)):
        with pytest.raises(DataError):
            lineal.read(write(tmp_path, f"u.{kind}", content[:size]))


def test_files_of_a_glob_are_one_table(tmp_path):
    write(tmp_path, "p1.csv", "a,c,y\n1,x,0\n")
    write(tmp_path, "p2.csv", "y,c,a\n1,z,2\n")
    data = lineal.read(tmp_path / "p*.csv")
    np.testing.assert_array_equal(dense(data.X), [[1, 1, 0], [2, 0, 1]])
    write(tmp_path, "p3.csv", "a,y\n1,0\n")
    with pytest.raises(DataError, match=r"p3.csv has other columns than .*p1.csv: c"):
        lineal.read(tmp_path / "p*.csv")


def test_blocks_follow_a_schema(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(100)},{'abc'[rng.integers(3)]},{rng.integers(2)}" for _ in range(5000)]
    path = write(tmp_path, "t.csv.gz", gzip.compress(("n,c,y\n" + "\n".join(rows) + "\n").encode()))
    whole = lineal.read(path)
    for schema in (None, whole.schema):
        blocks = list(lineal.read_blocks(path, schema=schema, block_bytes=1))
        np.testing.assert_array_equal(np.vstack([dense(block.X) for block in blocks]), dense(whole.X))
        np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), whole.y)


def test_what_training_decided_stays_decided(tmp_path):
    path = write(tmp_path, "t.csv", "a,c,y\n1,x,0\n")
    schema = lineal.read(path).schema
    with pytest.raises(OptionError, match="missing='zero' cannot be changed"):
        lineal.read(path, schema=schema, missing="zero")


@pytest.mark.parametrize("settings", [{}, {"columns": 3}, {"columns": [{"x": 1}]}, {"columns": [], "odd": 1}])
def test_damaged_schema(tmp_path, settings):
    with pytest.raises(DataError, match="stored description of the table is damaged"):
        lineal.read(write(tmp_path, "t.csv", "a,y\n1,0\n"), schema=Schema("table", 1, settings))


# ---------------------------------------------------------------------------------------------- real data


def test_adult():
    train = lineal.read(shared("adult/train.csv.gz"), missing="indicator")
    assert train.X.shape[0] == 32561
    assert (train.y == ">50K").sum() == 7841
    assert train.schema.settings["label_chosen"] == "the last column"
    missing = train.X[:, [train.feature_names.index("workclass is missing")]].sum()
    assert missing == 1836
    test = lineal.read(shared("adult/test.csv.gz"), schema=train.schema)
    assert test.X.shape == (16281, train.X.shape[1])
    assert (test.y == ">50K").sum() == 3846


def test_bank():
    data = lineal.read(shared("bank_additional/bank-additional-full.csv.gz"))
    assert len(data) == 41188
    assert (data.y == "yes").sum() == 4640
    assert "job=housemaid" in data.feature_names


def test_mushroom():
    path = shared("mushroom/agaricus-lepiota.csv.gz")
    with pytest.raises(DataError, match="column 'f11' is missing; choose"):  # that it has no header is found out
        lineal.read(path, missing="error")
    data = lineal.read(path, label=0, missing="zero")
    assert (data.y == "e").sum() == 4208
    assert data.X.sum() == 8124 * 22 - 2480  # 2480 stalk roots are missing


@pytest.mark.slow
def test_kddcup():
    data = lineal.read(shared("kddcup99/train_10_percent.csv.gz"))
    assert len(data) == 494021
    assert (data.y == "smurf.").sum() == 280790
    assert sparse.issparse(data.X)
    test = lineal.read(shared("kddcup99/test_corrected.csv.gz"), schema=data.schema)
    assert len(test) == 311029
    assert test.schema.settings["unseen"].keys() == {"f2"}


def test_reuters():
    data = lineal.read(shared("reuters21578/train.jsonl.gz"), label="topics", ignore="places,id,text", missing="zero")
    assert data.y.shape == (9603, 115)
    assert (np.diff(data.y.indptr) == 0).sum() == 1828


def test_options_that_repeat_the_training_are_welcome(tmp_path):
    path = write(tmp_path, "t.csv", "a,id,c,y\n1,7,x,0\n")
    schema = lineal.read(path, label=-1, ignore="id").schema
    for options in ({"label": "y"}, {"label": "-1"}, {"label": 3}, {"ignore": "id"}):
        assert lineal.read(path, schema=schema, **options).X.shape == (1, 2)
    for options in ({"label": "c"}, {"label": 0}, {"ignore": "a"}, {"weight": "id"}):
        with pytest.raises(OptionError, match="cannot be changed"):
            lineal.read(path, schema=schema, **options)


def test_missing_where_training_had_none(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "a,c,y\n1,x,0\n2,z,1\n"), missing="indicator")
    test = lineal.read(write(tmp_path, "u.csv", "a,c,y\n,x,0\n2,?,1\n"), schema=train.schema)
    np.testing.assert_array_equal(test.X, [[1.5, 1, 0], [2, 0, 0]])  # 1.5 is the mean
    assert test.schema.settings["unseen"] == {"a": 1, "c": 1}


def test_columns_without_any_value(tmp_path):
    text = "n,c,y\n,x,0\n?,x,1\n"
    for missing, expected in (("zero", [[0, 1], [0, 1]]), ("mean", [[0, 1], [0, 1]]), ("indicator", [[0, 1, 1]] * 2)):
        data = lineal.read(write(tmp_path, "t.csv", text), missing=missing)
        np.testing.assert_array_equal(data.X, expected)
    table = pa.table({"s": pa.array([None, None], pa.string()), "a": [1, 2], "y": [0, 1]})
    write_table(table, tmp_path / "t.parquet")
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.parquet", missing="zero").X, [[1], [2]])
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.parquet", missing="indicator").X, [[1, 1], [1, 2]])


def test_booleans_are_numbers(tmp_path):
    path = write(tmp_path, "t.csv", "b,y\ntrue,0\nfalse,1\n")
    data = lineal.read(path)
    np.testing.assert_array_equal(data.X, [[1], [0]])
    np.testing.assert_array_equal(lineal.read(path, schema=data.schema).X, data.X)
    np.testing.assert_array_equal(lineal.read(write(tmp_path, "u.csv", "b\n1\n0\n"), schema=data.schema).X, data.X)


@pytest.mark.parametrize("other", ["csv", "jsonl", "parquet", "arrow"])
def test_a_schema_serves_every_kind_of_table(tmp_path, other):
    train = lineal.read(write(tmp_path, "t.csv", "a,c,y\n1,x,p\n2,z,q\n"))
    table = pa.table({"c": ["z", "w"], "y": ["q", "p"], "a": [5, 6]})
    path = tmp_path / f"u.{other}"
    if other == "csv":
        path.write_text("c,y,a\nz,q,5\nw,p,6\n")
    elif other == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        write_table(table, path)
    test = lineal.read(path, schema=train.schema)
    np.testing.assert_array_equal(test.X, [[5, 0, 1], [6, 0, 0]])
    np.testing.assert_array_equal(test.y, ["q", "p"])
    assert test.schema.settings["unseen"] == {"c": 1}


def test_wide_table(tmp_path):
    d = 3000
    names = ",".join(f"c{j}" for j in range(d))
    rows = "".join(",".join(map(str, range(i, i + d))) + f",{i}\n" for i in range(5))
    data = lineal.read(write(tmp_path, "t.csv", names + ",y\n" + rows))
    np.testing.assert_array_equal(data.X, np.arange(d) + np.arange(5)[:, None])
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.csv", schema=data.schema).X, data.X)


def test_agrees_with_pandas_and_scikit_learn():
    pandas = pytest.importorskip("pandas")
    path = shared("adult/train.csv.gz")
    frame = pandas.read_csv(path, na_values="?").drop(columns="income")
    expected = pandas.get_dummies(frame, prefix_sep="=", dtype=float)  # a missing cell is all zeros there, too
    data = lineal.read(path, missing="zero")
    assert set(data.feature_names) == set(expected.columns)
    np.testing.assert_array_equal(data.X.toarray(), expected[data.feature_names].to_numpy())


@pytest.mark.parametrize("seed", range(3))
def test_damaged_tables_raise_only_our_errors(tmp_path, seed):
    """After random edits, a small file is read twice with the same result, or refused with a lineal error."""
    rng = np.random.default_rng(seed)
    texts = {
        "csv": b'a,b,"c d",y\n1,2.5,x,0\n3,?,"q,r",1\n-4,1e3,,0\n' * 3,
        "jsonl": b'{"a":1,"s":"x","y":true}\n{"a":2.5,"s":null,"y":false}\n' * 3,
    }
    snippets = [b",", b'"', b"\n", b"\0", b"{", b"}", b"[", b"1", b"NaN", b"inf", b"?", b";", b"\xff"]
    for turn in range(150):
        kind = ("csv", "jsonl")[turn % 2]
        text = bytearray(texts[kind])
        for _ in range(rng.integers(1, 5)):
            place = int(rng.integers(len(text)))
            text[place : place + rng.integers(3)] = snippets[rng.integers(len(snippets))]
        path = write(tmp_path, f"t.{kind}", bytes(text))
        try:
            data = lineal.read(path, missing="indicator")
        except LinealError:
            continue
        again = lineal.read(path, schema=data.schema)
        np.testing.assert_array_equal(dense(again.X), dense(data.X))
        blocks = list(lineal.read_blocks(path, missing="indicator", block_bytes=int(rng.choice([1, 60, 10**6]))))
        np.testing.assert_array_equal(np.vstack([dense(block.X) for block in blocks]), dense(data.X))


# ---------------------------------------------------------------------------------------------- quotes


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('a,label\n1,"x\n2,y\n', 2, 3), ('a,label\n"1,x\n2,y\n', 2, 1), ('a,"label\n1,x\n2,y\n', 1, 3),
        ('a,label\n1,"p\nq"\n2,"y', 4, 3), ('a,label\r\n1,x\r\n2,"y\r\n3,z\r\n', 3, 3), ('a,label\n1,"', 2, 3),
        ('a,label\n1,"x""\n2,y""\n', 2, 3), ('a,label\r1,"x\r2,y\r', 2, 3), ('\n\na,label\n1,x\n2,"', 5, 3),
    ],
)  # fmt: skip
def test_a_quote_that_stays_open(tmp_path, name, packed, text, line, column):
    text = text.replace(",", "\t") if name.endswith("tsv") else text
    path = write(tmp_path, name + ".gz" * packed, gzip.compress(text.encode()) if packed else text)
    for read in (lineal.read, lambda path: list(lineal.read_blocks(path, block_bytes=1))):
        with pytest.raises(ParseError, match="found a quote that is never closed") as caught:
            read(path)
        assert (caught.value.line, caught.value.column) == (line, column)


def test_an_open_quote_far_into_a_file(tmp_path, monkeypatch):
    """In whatever piece of the file the quote opens, no row after it is swallowed."""
    lines = [f'{i},"cell {i}",{i % 2}' for i in range(1000)]
    for place in (0, 1, 500, 998, 999):
        damaged = list(lines)
        damaged[place] = f'{place},cell,"{place % 2}'
        path = write(tmp_path, "t.csv", "a,t,label\n" + "\n".join(damaged) + "\n")
        for size in (1, 1000, 1 << 20):
            monkeypatch.setattr(csv, "PIECE_BYTES", size)
            with pytest.raises(ParseError) as caught:
                lineal.read(path)
            is_last = place == 999
            assert caught.value.line == place + (2 if is_last else 3)
            assert is_last or f"opened in line {place + 2}" in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ('x"y', 'x"y'), ('x"', 'x"'), ('x "y"', 'x "y"'), (' "x"', '"x"'), ('"x" ', "x"), ('"x""y"', 'x"y'),
        ('"x\n\ny"', "x\n\ny"), ('"a,b"', "a,b"), ('""""', '"'), ('"x\r\ny"', "x\r\ny"),
    ],
)  # fmt: skip
def test_quotes_inside_cells(tmp_path, cell, found):
    """A quote means something only where a cell begins; two inside of a quoted cell stand for one."""
    data = lineal.read(write(tmp_path, "t.csv", f"a,label\n1,{cell}\n2,no\n3,{cell}"))
    assert data.y.tolist() == [found, "no", found]


@pytest.mark.parametrize("cell", ['"x"y', '"x" y', '"x"y"', '"x"  "y"'])
def test_text_after_a_closing_quote(tmp_path, cell):
    with pytest.raises(ParseError, match=r"t.csv:3:\d+: found .* after a closing quote, expected the end of the cell"):
        lineal.read(write(tmp_path, "t.csv", f"a,label\n1,z\n2,{cell}\n3,no\n"))


# ---------------------------------------------------------------------------------------------- headers

ADULT = [
    "20,Private,86555,Bachelors,<=50K", "38,State-gov,77516,HS-grad,>50K", "53,Private,234721,11th,<=50K",
    "28,Local-gov,338409,Bachelors,>50K",
]  # fmt: skip


def test_a_file_without_header_loses_no_row(tmp_path):
    train = lineal.read(write(tmp_path, "t.csv", "\n".join(ADULT)))
    assert len(train) == 4
    assert train.y.tolist() == ["<=50K", ">50K", "<=50K", ">50K"]
    assert [name.partition("=")[0] for name in train.feature_names] == ["f0", *["f1"] * 3, "f2", *["f3"] * 3]
    later = lineal.read(write(tmp_path, "u.csv", "\n".join(ADULT[2:])), schema=train.schema)
    np.testing.assert_array_equal(dense(later.X), dense(train.X)[2:])
    without = lineal.read(
        write(tmp_path, "v.csv", "\n".join(line.rpartition(",")[0] for line in ADULT)),
        schema=train.schema,
        labels=False,
    )
    np.testing.assert_array_equal(dense(without.X), dense(train.X))


@pytest.mark.parametrize(
    ("text", "has_header"),
    [
        ("20,Private,x", False),  # one row
        ("20,Private,x\n21,State,y", False),
        ("red,big,yes\nblue,small,no\nred,small,yes", False),  # a text of the first line occurs again
        ("colour,size,buy\nblue,small,no\nred,small,yes", True),
        (",a,label\n0,1,x\n1,2,y", True),  # an index without a name
        ("2019,2020,label\n1,2,x\n3,4,y", True),
        ("2019,2020,2021\n1,2,0\n3,4,1", False),
        ("2019,2020,paris\n2018,2021,rome\n2017,1999,rome", False),
        ("20,unknown,1\n30,5,0\n31,many,1\n31,6,1", False),  # mostly numbers below, but not only
        ("7,id,label\n1,2,a\n2,3,b", True),
        ("007,id,x\n1,2,a\n2,3,b", False),  # no name begins with zeros
        ("a,1.5,x\n1,2,a\n2,3,b", False),
        ("?,Private,1,a\n3,State,2,b\n4,Private,3,a", False),
        ("y,2\nn,1\ny,3", False),
    ],
)
def test_header_by_the_columns_below(tmp_path, text, has_header):
    path = write(tmp_path, "t.csv", text)
    data = lineal.read(path, missing="zero")
    rows = text.count("\n") + 1
    assert (len(data), data.schema.settings["header"]) == (rows - has_header, has_header)
    assert len(lineal.read(path, missing="zero", header="no")) == rows


def test_names_of_a_header_are_distinct_and_text(tmp_path):
    with pytest.raises(DataError, match="two columns have the name 'a'; if the first line is data, say header='no'"):
        lineal.read(write(tmp_path, "t.csv", "a,a,label\n0,1,x\n1,2,y\n"))
    with pytest.raises(DataError, match=r"t.csv: its first line is not UTF-8 text"):
        lineal.read(write(tmp_path, "t.csv", b"a\xff,label\n1,x\n2,y\n"))
    with pytest.raises(DataError, match=r"t.csv has no rows"):
        lineal.read(write(tmp_path, "t.csv", "a,b,label\n"))
    with pytest.raises(DataError, match="its first line was taken for names: if it is data, say header='no'"):
        lineal.read(write(tmp_path, "t.csv", "red,big,yes\n"))


def test_rows_for_a_model_without_header(tmp_path):
    """A line of names is skipped; a line with a number, or with a text that training had, is a row."""
    train = lineal.read(write(tmp_path, "t.csv", "1,red,a\n2,blue,b\n3,red,a\n"))
    for first, rows in (("n,colour,label", 1), ("7,colour,label", 2)):
        path = write(tmp_path, "u.csv", f"{first}\n5,red,a\n")
        assert len(lineal.read(path, schema=train.schema)) == rows
    with pytest.raises(DataError, match="expected a number"):
        lineal.read(write(tmp_path, "u.csv", "n,red,a\n5,red,a\n"), schema=train.schema)


# ---------------------------------------------------------------------------------------------- labels


def table_labels(tmp_path, labels, kind):
    """Labels as a file of the kind writes them, read back."""
    texts = {
        "csv": "a,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)),
        "jsonl": "".join(f'{{"a": {i}, "label": {label}}}\n' for i, label in enumerate(labels)),
        "svm": "".join(f"{label} 1:{i}\n" for i, label in enumerate(labels)),
        "vw": "".join(f"{label} | a:{i}\n" for i, label in enumerate(labels)),
    }
    path = write(tmp_path, f"t.{kind}", texts[kind])
    y = lineal.read(path).y
    blocks = np.concatenate([block.y for block in lineal.read_blocks(path, block_bytes=1)])
    assert blocks.dtype == y.dtype
    np.testing.assert_array_equal(blocks, y)
    lineal.convert(path, tmp_path / "t.arrow")
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.arrow").y, y)
    return y


@pytest.mark.parametrize("kind", ["csv", "jsonl", "svm", "vw"])
@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        ([2**53 + 1, 2**53, -(2**53) - 1], "int64"), ([2**63 - 1, 2**63 - 2, -(2**63)], "int64"),
        ([2**64 - 1, 2**64 - 2, 0], "uint64"), ([2**63, 2**63 + 1], "uint64"), ([1, 0], "int64"),
    ],
)  # fmt: skip
def test_whole_numbers_stay_what_they_are(tmp_path, kind, labels, dtype):
    y = table_labels(tmp_path, labels, kind)
    assert (y.dtype, y.tolist()) == (np.dtype(dtype), labels)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "svm", "vw"])
@pytest.mark.parametrize(
    "labels", [[2**64, 1], [-(2**63) - 1, 1], [-1, 2**63], [2**53 + 1, 0.5], ["1e16", 2**53 + 1], [10**400, 1]]
)
def test_numbers_that_would_be_merged_are_refused(tmp_path, kind, labels):
    with pytest.raises(DataError):
        table_labels(tmp_path, labels, kind)


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["007", "7"], ["007", "7"]), (["+1", "1"], [1, 1]), (["1", "1.0"], [1.0, 1.0]), (["1e3", "1000"], [1e3, 1e3]),
        (["0", "-0"], [0, 0]), (["1", "x"], ["1", "x"]), (["0x10", "16"], ["0x10", "16"]),
        (["x\0y", "xy"], ["x\0y", "xy"]),
        (["true", "False"], [True, False]), (["1", "true"], ["1", "true"]), (["inf", "1"], ["inf", "1"]),
    ],
)  # fmt: skip
def test_labels_as_a_csv_file_spells_them(tmp_path, labels, found):
    y = table_labels(tmp_path, labels, "csv")
    assert y.tolist() == found
    assert {type(label) for label in y.tolist()} == {type(label) for label in found}


def test_labels_that_numpy_would_change_are_refused(tmp_path):
    for kind, label in (("csv", "x\0"), ("jsonl", '"x\\u0000"')):
        with pytest.raises(DataError, match="ends with a zero byte"):
            table_labels(tmp_path, [label, label.replace("\0", "").replace("\\u0000", "")], kind)
    with pytest.raises(DataError, match="not a finite number"):
        table_labels(tmp_path, ["1e400", "1"], "csv")


def test_labels_of_several_files_are_not_rounded(tmp_path):
    X = np.ones((2, 1))
    for name, y in (("a", [2**63, 2**63 + 1]), ("b", [0, 1]), ("c", [-1, 1]), ("d", [0.5, 1.0])):
        np.savez(tmp_path / f"{name}.npz", X=X, y=np.array(y, np.uint64 if name == "a" else None))
    files = {name: str(tmp_path / f"{name}.npz") for name in "abcd"}
    assert lineal.read([files["a"], files["b"]]).y.tolist() == [2**63, 2**63 + 1, 0, 1]
    assert lineal.read([files["b"], files["d"]]).y.tolist() == [0, 1, 0.5, 1]
    for other, message in (("c", "no integer type holds both"), ("d", "some have a fraction")):
        with pytest.raises(DataError, match=message):
            lineal.read([files["a"], files[other]])


# ---------------------------------------------------------------------------------------------- many columns


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a,b,label\n1,2,x\n3,4.5,y\n", {}), ("a,b,label\r\n1,2,x\r\n3,-4e3,y", {}), ("1,2,0\n3,4,1\n", {}),
        ("label,a,b\nx,1,2\ny,3,4\n", {}), ("a,b,c\n1,2,x\n3,4,y\n", {"label": "0", "ignore": "c"}),
        ("a,b,label\n1,,x\n3,4,y\n", {}), ("a,b,label\n1,2,\n3,4,y\n", {}), ("a,b,label\n1,t,x\n3,4,y\n", {}),
        ('a,b,label\n1,2,"x"\n3,4,y\n', {}), ("a,b,label\n1,2\n3,4,y\n", {}), ("a,b,label\n 1 ,2,x\n3,4,y\n", {}),
        ("a,b,label\n1,2,x\n\n3,4,y\n", {}), ("a,b,label\n1,2,x\n3,1e999,y\n", {}), ("a;b;label\n1;2;x\n3;4;y\n", {}),
        ("a,b,label\n1,2,007\n3,4,7\n", {}), ("a,b,label\ntrue,2,x\nfalse,4,y\n", {}),
    ],
)  # fmt: skip
def test_columns_read_together(tmp_path, monkeypatch, text, options):
    """Very many columns are parsed together, with the same result; so are rows for the model."""

    def outcome(path, **options):
        try:
            data = lineal.read(path, **options)
        except DataError as error:
            return str(error), None
        y = None if data.y is None else data.y.tolist()
        return (dense(data.X).tolist(), y, data.feature_names), data.schema

    path = write(tmp_path, "t.csv", text)
    expected, schema = outcome(path, **options)
    monkeypatch.setattr(wide, "MIN_COLUMNS", 1)
    found, wide_schema = outcome(path, **options)
    assert found == expected
    if schema is None:
        return
    assert outcome(path, schema=Schema.from_json(json.loads(json.dumps(wide_schema.to_json()))))[0] == expected
    for later in ("b,label,a\n5,x,6\n", 'b,a\n"5",6\n', "b,a,label\n,6,x\n", "b,a,label\n1,t,x\n", "b,label\n1,x\n"):
        path = write(tmp_path, "u.csv", later)
        assert outcome(path, schema=wide_schema, labels=False)[0] == outcome(path, schema=schema, labels=False)[0]
    if wide_schema != schema:
        frame = pa.table({"a": [5.0], "b": [6.0], "c": [7.0]}).to_pandas()
        if schema.settings["header"] and not options:
            assert dense(reader.encode_frame(frame, wide_schema)).tolist() == [[5, 6]]
        picked = wide_schema.picked(np.array([0]))
        assert lineal.read(tmp_path / "t.csv", schema=picked).X.shape[1] == 1


def test_many_columns_take_little(tmp_path):
    """A hundred thousand columns are not a hundred thousand objects."""
    names = ",".join(f"c{j}" for j in range(100_000))
    row = ",".join(["0.12345678"] * 100_000)
    data = lineal.read(write(tmp_path, "t.csv", f"{names},label\n{row},0\n{row},1\n"))
    assert data.X.shape == (2, 100_000)
    assert len(data.schema.settings["columns"]) == 1
    assert data.feature_names[-1] == "c99999"
