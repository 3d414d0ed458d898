"""`read` and `read_blocks` for all formats: recognised by option, name or first bytes; compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import sparse

import lineal
from lineal.data.formats import format_of, sniff
from lineal.data.schema import Schema
from lineal.errors import DataError, OptionError

ROWS = np.array([[1.5, 0, 2], [0, 3, 0], [4, 0, 0.25]])
LABELS = np.array([1, 0, 1])


def svmlight() -> str:
    cells = [[f"{j + 1}:{value:g}" for j, value in enumerate(row) if value] for row in ROWS]
    return "".join(f"{label} {' '.join(row)}\n" for label, row in zip(LABELS, cells))


def csv(delimiter: str = ",") -> str:
    lines = [["a", "b", "c", "label"], *([f"{v:g}" for v in row] + [str(y)] for row, y in zip(ROWS, LABELS))]
    return "".join(delimiter.join(line) + "\n" for line in lines)


def jsonl() -> str:
    lines = [f'{{"a": {r[0]:g}, "b": {r[1]:g}, "c": {r[2]:g}, "label": {y}}}\n' for r, y in zip(ROWS, LABELS)]
    return "".join(lines)


def table() -> pa.Table:
    return pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1], "c": ROWS[:, 2], "label": LABELS})


def content(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table(), sink)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, table().schema) as writer:
            writer.write_table(table())
    elif kind == "npz":
        np.savez(sink, X=ROWS, y=LABELS)
    else:
        return {"svm": svmlight, "csv": csv, "tsv": lambda: csv("\t"), "jsonl": jsonl}[kind]().encode()
    return sink.getvalue()


KINDS = ["svm", "csv", "tsv", "jsonl", "parquet", "arrow", "npz"]


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def check(data) -> None:
    np.testing.assert_array_equal(dense(data.X), ROWS)
    np.testing.assert_array_equal(data.y, LABELS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compression", ["", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("named", [True, False])
def test_every_format_compressed_or_not(tmp_path, kind, compression, named):
    raw = content(kind)
    packed = {
        "": lambda: raw,
        ".gz": lambda: gzip.compress(raw),
        ".bz2": lambda: bz2.compress(raw),
        ".zst": lambda: pa.compress(raw, "zstd", asbytes=True),
    }[compression]()
    path = tmp_path / ((f"data.{kind}" if named else "data.txt") + compression)
    path.write_bytes(packed)
    data = lineal.read(path)
    check(data)
    check(lineal.read(path, schema=data.schema))
    blocks = list(lineal.read_blocks(path, block_bytes=40))
    np.testing.assert_array_equal(np.vstack([dense(block.X) for block in blocks]), ROWS)
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), LABELS)
    converted = lineal.read(lineal.convert(path, tmp_path / "converted.arrow"))
    check(converted)
    assert converted.schema == data.schema
    check(lineal.read(tmp_path / "converted.arrow", schema=data.schema))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("packed", "blocks"), [(False, False), (True, True)])
def test_standard_input(tmp_path, kind, packed, blocks):
    code = """
import sys, numpy as np, lineal
datasets = list(lineal.read_blocks("-")) if sys.argv[1] == "blocks" else [lineal.read("-")]
X = np.vstack([d.X.toarray() if hasattr(d.X, "toarray") else d.X for d in datasets])
print(X.tolist(), np.concatenate([d.y for d in datasets]).tolist())
"""
    raw = gzip.compress(content(kind)) if packed else content(kind)
    result = subprocess.run(
        [sys.executable, "-c", code, "blocks" if blocks else "whole"], input=raw, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr.decode()
    assert result.stdout.decode().strip() == f"{ROWS.tolist()} {LABELS.tolist()}"


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("1 1:2 3:4\n", "svmlight"), ("-1 qid:3 1:0.5\n", "svmlight"), ("1,2 5:1\n", "svmlight"),
        ("# comment\n+1 7:1e-3\n", "svmlight"), ("3:1.5 4:2\n", "svmlight"),
        ("1 |f a b:2\n", "vw"), ("| a b\n", "vw"), ("-1 0.5 'tag|x a\n", "vw"), ("1 2.0 tag |x a |y b\n", "vw"),
        ("|x a,b;c\n", "vw"),
        ('{"a": 1}\n', "jsonl"), ('\n\n  {"a": 1}\n', "jsonl"),
        ("a,b,c\n", "csv"), ("a;b\n", "csv"), ("a|b|c\n", "csv"), ("1|2|3\n", "csv"), ("a\tb\n", "tsv"),
        ("\ufeffa,b\n", "csv"), ("12:30,5\n", "csv"), ("1,2,3\n", "csv"),
    ],
)  # fmt: skip
def test_sniffing(head, kind):
    assert sniff(head.encode(), "x") == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.svm", "svmlight"), ("a.libsvm.gz", "svmlight"), ("a.VW", "vw"), ("a.csv.zst", "csv"), ("a.tsv.bz2", "tsv"),
        ("a.b.ndjson", "jsonl"), ("a.json", "jsonl"), ("a.parquet", "parquet"), ("a.feather", "arrow"),
        ("a.ipc", "arrow"), ("a.npy", "npy"), ("a.npz", "npz"),
    ],
)  # fmt: skip
def test_names_tell_the_format(name, kind):
    assert format_of(name) == kind


@pytest.mark.parametrize("text", ["hello\n", "no idea what this is\n"])
def test_unknown_formats(tmp_path, text):
    (tmp_path / "x.dat").write_text(text)
    with pytest.raises(DataError, match=r"x.dat: cannot tell its format from its first line; say format="):
        lineal.read(tmp_path / "x.dat")


def test_format_as_told(tmp_path):
    (tmp_path / "x.svm").write_text(csv())
    check(lineal.read(tmp_path / "x.svm", format="csv"))
    (tmp_path / "y.csv").write_text(svmlight())
    check(lineal.read(tmp_path / "y.csv", format="svmlight"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lable": "a"}, "option='lable' is unknown: did you mean 'label'"),
        ({"format": "cvs"}, "format='cvs' is unknown: did you mean 'csv'"),
        ({"missing": "means"}, "missing='means' is unknown: did you mean 'mean'"),
        ({"levels": "one-hot"}, "levels='one-hot' is unknown: did you mean 'onehot'"),
        ({"header": True}, "header=True is unknown"),
        ({"dtype": "float16"}, "dtype='float16' is unknown"),
        ({"bits": 40}, "bits=40 must be an integer from 1 to 30"),
        ({"max_bad_lines": -1}, "max_bad_lines=-1 must be an integer of at least 0"),
        ({"block_bytes": 0}, "block_bytes=0 must be an integer of at least 1"),
        ({"index_base": "0"}, "index_base='0' does not apply to csv files"),
        ({"trusted": True}, "trusted=True does not apply to csv files"),
    ],
)
def test_options_are_checked(tmp_path, options, message):
    (tmp_path / "x.csv").write_text(csv())
    for call in (lineal.read, lineal.read_blocks):
        with pytest.raises(OptionError, match=message):
            call(tmp_path / "x.csv", **options)


def test_files_that_are_not_there(tmp_path):
    for call in (lineal.read, lineal.read_blocks):
        with pytest.raises(DataError, match=r"nothing.csv does not exist"):
            call(tmp_path / "nothing.csv")
        with pytest.raises(DataError, match="no file matches"):
            call(tmp_path / "*.csv")


def test_a_glob_has_one_format(tmp_path):
    (tmp_path / "a.csv").write_text(csv())
    (tmp_path / "b.svm").write_text(svmlight())
    with pytest.raises(DataError, match=r"a.csv is csv, but .*b.svm is svmlight: read files of one format at a time"):
        lineal.read(tmp_path / "*")


def test_truncated_compression(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(csv().encode() * 100)[:-20])
    with pytest.raises(DataError, match="gzip data is truncated"):
        lineal.read(path)


def test_schemas_of_other_formats(tmp_path):
    for kind in ("csv", "npz", "svm"):
        (tmp_path / f"d.{kind}").write_bytes(content(kind))
    schemas = {kind: lineal.read(tmp_path / f"d.{kind}").schema for kind in ("csv", "npz", "svm")}
    check(lineal.read(tmp_path / "d.npz", schema=schemas["csv"]))  # an array has its columns in order already
    check(lineal.read(tmp_path / "d.svm", schema=schemas["npz"], index_base=1))
    with pytest.raises(DataError, match=r"d.csv is a table, but the model was trained on 'array' data"):
        lineal.read(tmp_path / "d.csv", schema=schemas["npz"])
    with pytest.raises(DataError, match="trained on table data and cannot read svmlight"):
        lineal.read(tmp_path / "d.svm", schema=schemas["csv"])


def test_heavy_imports_only_where_needed(tmp_path):
    (tmp_path / "d.csv").write_text(csv())
    (tmp_path / "d.svm").write_text(svmlight())
    for name, absent in (("d.csv", "numba"), ("d.svm", "pyarrow")):
        code = f"import sys, lineal; lineal.read({str(tmp_path / name)!r}); print({absent!r} in sys.modules)"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "False", name


def test_svmlight_rows_without_features_are_sniffed(tmp_path):
    (tmp_path / "x.txt").write_text("1\n-1\n1 2:3\n")
    assert format_of(str(tmp_path / "x.txt")) == "svmlight"


@pytest.mark.parametrize("kind", ["csv", "svm"])
def test_pipes_need_a_format(tmp_path, kind):
    code = "import sys, lineal; d = lineal.read(sys.argv[1], **eval(sys.argv[2])); print(d.X.shape)"
    (tmp_path / "d").write_bytes(content(kind))

    def shell(options: str):
        script = f'"$0" -c "$1" <(cat {tmp_path / "d"}) "{options}"'
        return subprocess.run(["bash", "-c", script, sys.executable, code], capture_output=True, text=True, check=False)

    assert "is a pipe, and looking at its first bytes would lose them: say format=" in shell("{}").stderr
    told = shell(str({"format": {"csv": "csv", "svm": "svmlight"}[kind]}))
    assert told.stdout.strip() == "(3, 3)", told.stderr


@pytest.mark.parametrize("name", ["d.vw", "d.txt"])
def test_vw_goes_through_the_same_door(tmp_path, name):
    (tmp_path / name).write_text("1 |f a:1.5 b\n-1 |f c:2\n1 |f a\n")
    data = lineal.read(tmp_path / name, bits=10)
    assert data.schema.format == "vw"
    converted = lineal.read(lineal.convert(tmp_path / name, tmp_path / "d.arrow", bits=10))
    np.testing.assert_array_equal(converted.X.toarray(), data.X.toarray())
    np.testing.assert_array_equal(converted.y, [1, -1, 1])
    assert converted.schema == data.schema


def test_arrays_do_not_tell_the_index_base(tmp_path):
    """From these rows alone "auto" would take the second column for the first."""
    schema = Schema("array", 3)
    (tmp_path / "d.svm").write_text("0 1:5\n1 2:6\n")
    for options in ({}, {"index_base": "auto"}):
        with pytest.raises(OptionError, match=r"index_base='auto' .* trained on arrays: say index_base=0 or"):
            lineal.read(tmp_path / "d.svm", schema=schema, **options)
    for base, row in (("0", [0, 5, 0]), ("1", [5, 0, 0]), (0, [0, 5, 0])):
        data = lineal.read(tmp_path / "d.svm", schema=schema, index_base=base)
        np.testing.assert_array_equal(data.X.toarray()[0], row)
    with pytest.raises(OptionError, match=r"n_features=4 cannot be changed: the model was trained with n_features=3"):
        lineal.read(tmp_path / "d.svm", schema=schema, index_base="0", n_features=4)


@pytest.mark.parametrize("kind", KINDS)
def test_without_labels(tmp_path, kind):
    path = tmp_path / f"d.{kind}"
    path.write_bytes(content(kind))
    schema = lineal.read(path).schema
    options = {"index_base": "1"} if kind == "svm" else {}
    for data in (lineal.read(path, schema=schema, labels=False, **options), *lineal.read_blocks(path, labels=False)):
        assert data.y is None
        assert data.weights is None
    converted = lineal.read(lineal.convert(path, tmp_path / "c.arrow"), labels=False)
    assert converted.y is None


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lambda raw: pa.compress(raw, "zstd", asbytes=True)]
)
def test_standard_input_in_small_writes(pack):
    """The result does not depend on what the first write holds: here it is one byte."""
    rows = b"# a comment that fills the first write\n" * 1500 + svmlight().encode()
    code = "import lineal; d = lineal.read('-'); print(d.schema.format, len(d), d.X.toarray().tolist())"
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    raw = pack(rows)
    for part in (raw[:1], raw[1:9], raw[9:]):
        process.stdin.write(part)
        process.stdin.flush()
        time.sleep(0.1)
    out, errors = process.communicate(timeout=120)
    assert out.decode().strip() == f"svmlight 3 {ROWS.tolist()}", errors.decode()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("d.svm", {"bits": 18}, "bits=18 does not apply to svmlight"),  # the default, but said
        ("d.npz", {"n_features": 3}, "n_features=3 does not apply to npz"),
        ("d.svm", {"n_features": 3_000_000_000}, "n_features=3000000000 must be an integer from 1 to 2147483647"),
        ("d.svm", {"n_features": 0}, "n_features=0 must be"),
        ("d.csv", {"label": "a", "drop": "b, a"}, "ignore='b, a': the column 'a' is also the label"),
        ("d.csv", {"weight": "a", "drop": "a"}, "ignore='a': the column 'a' is also the weight"),
        ("d.csv", {"label": "a", "weight": "a"}, "weight='a': the column 'a' is also the label"),
    ],
)
def test_options_that_cannot_be_honoured(tmp_path, name, options, message):
    (tmp_path / name).write_bytes(content(name.removeprefix("d.")))
    with pytest.raises(OptionError, match=re.escape(message)):
        lineal.read(tmp_path / name, **options)


def test_options_that_contradict_a_schema(tmp_path):
    (tmp_path / "d.svm").write_text("0 1:5\n1 2:6\n")
    (tmp_path / "d.vw").write_text("0 | a\n1 | b\n")
    (tmp_path / "d.csv").write_text("a,b\nx,0\ny,1\n")
    svmlight_schema = lineal.read(tmp_path / "d.svm").schema
    vw_schema = lineal.read(tmp_path / "d.vw", bits=4).schema
    table_schema = lineal.read(tmp_path / "d.csv", levels="hash", bits=4).schema
    assert lineal.read(tmp_path / "d.svm", schema=svmlight_schema, n_features=2, index_base="1").X.shape == (2, 2)
    assert lineal.read(tmp_path / "d.vw", schema=vw_schema, bits=4).X.shape == (2, 16)
    for name, schema, options in (
        ("d.svm", svmlight_schema, {"n_features": 3}),
        ("d.svm", svmlight_schema, {"index_base": "0"}),
        ("d.vw", vw_schema, {"bits": 18}),
        ("d.csv", table_schema, {"bits": 18}),
        ("d.csv", table_schema, {"levels": "onehot"}),
    ):
        with pytest.raises(OptionError, match=f"{next(iter(options))}=.* cannot be changed"):
            lineal.read(tmp_path / name, schema=schema, **options)


COLUMN = {"name": "a", "kind": "category", "values": ["x"], "fill": 0.0, "indicator": False}


@pytest.mark.parametrize(
    ("kind", "settings", "wrong"),
    [
        ("svmlight", {}, "index_base"),
        ("svmlight", {"index_base": 2}, "index_base"),
        ("svmlight", {"index_base": 1, "labels": "multi", "class_names": ["a"]}, "class_names"),
        ("svmlight", {"index_base": 1, "labels": "multi", "class_names": [10**400]}, "class_names"),
        ("svmlight", {"index_base": 1, "labels": "multi"}, "class_names"),
        ("svmlight", {"index_base": 1, "labels": []}, "labels"),
        ("vw", {}, "bits"),
        ("vw", {"bits": 4}, "bits"),
        ("table", {}, "columns"),
        ("table", {"columns": [{**COLUMN, "name": 3}]}, "columns"),
        ("table", {"columns": [{**COLUMN, "values": [3]}]}, "columns"),
        ("table", {"columns": [{**COLUMN, "kind": "text"}]}, "columns"),
        ("table", {"columns": [{**COLUMN, "fill": None}]}, "columns"),
        ("table", {"columns": [COLUMN], "label_kind": "colour"}, "label_kind"),
        ("table", {"columns": [COLUMN], "class_names": [None]}, "class_names"),
        ("table", {"columns": [COLUMN], "bits": 99}, "bits"),
        ("table", {"columns": [COLUMN], "names": "abc"}, "names"),
        ("colours", {}, "format"),
    ],
)
def test_damaged_schemas(kind, settings, wrong):
    with pytest.raises(DataError, match=f"the stored schema is damaged: .*{wrong}"):
        Schema.from_json({"format": kind, "n_features": 1, "settings": settings})


@pytest.mark.parametrize("values", [{}, {"format": "array", "n_features": 1, "settings": 3}, [], None])
def test_schemas_of_other_shapes(values):
    with pytest.raises(DataError, match="the stored schema is damaged"):
        Schema.from_json(values)


def test_sound_schemas(tmp_path):
    for kind in KINDS:
        (tmp_path / f"d.{kind}").write_bytes(content(kind))
        schema = lineal.read(tmp_path / f"d.{kind}").schema
        assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def test_cut_and_foreign_binary_files(tmp_path):
    (tmp_path / "d.arrow").write_bytes(content("arrow")[:-30])
    with pytest.raises(DataError, match=r"d.arrow is cut or damaged: an Arrow file ends with ARROW1"):
        lineal.read(tmp_path / "d.arrow")
    (tmp_path / "d.npy").write_bytes(b"garbage, and no array")
    with pytest.raises(DataError, match=r"d.npy is not a readable NumPy file: it does not begin like one"):
        lineal.read(tmp_path / "d.npy")
    (tmp_path / "d.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"d.npz is not a readable NumPy file: it is empty"):
        lineal.read(tmp_path / "d.npz")
