"""The binary layout: exact round trips, zero copies, little memory, atomic writes, and no trust in damaged files."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

import lineal
from lineal.data import source
from lineal.data.binary import checks, layout
from lineal.data.binary.checks import check_rows, check_sparse
from lineal.data.binary.file import LayoutFile
from lineal.data.binary.layout import open_layout, write_layout
from lineal.data.binary.write import Collector
from lineal.data.binary.write import write as write_blocks
from lineal.data.dataset import Dataset, csr_of_parts
from lineal.data.schema import Schema
from lineal.errors import DataError, OptionError

N, D = 60, 30


def matrix(kind: str, dtype=np.float64, index=np.int32, n: int = N, d: int = D, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.2, rng.normal(size=(n, d)), 0).astype(dtype)
    X[n // 2] = 0  # an empty row
    if kind == "dense":
        return X
    S = sparse.csr_array(X)
    return csr_of_parts(S.data, S.indices.astype(index), S.indptr.astype(index), S.shape)


def labels(kind: str, n: int = N, seed: int = 1):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, n)
    return {
        "none": None, "int64": codes, "int32": codes.astype(np.int32), "float": codes + 0.5,
        "text": np.array(["no", "yes", "perhäps"])[codes], "bool": codes > 0,
        "multi": sparse.csr_array(rng.random((n, 4)) < 0.3),
    }[kind]  # fmt: skip


def equal(a, b) -> None:
    if a is None or b is None:
        assert a is b
        return
    assert a.dtype == b.dtype
    assert sparse.issparse(a) == sparse.issparse(b)
    np.testing.assert_array_equal(*(m.toarray() if sparse.issparse(m) else m for m in (a, b)))


def leftovers(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".lineal")]


# ---------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("label", ["none", "int64", "int32", "float", "text", "bool", "multi"])
def test_round_trip(tmp_path, kind, dtype, label):
    y = labels(label)
    data = Dataset(
        matrix(kind, dtype), y, weights=np.arange(N) / 2, query_ids=np.arange(N) // 7,
        feature_names=[f"f {j} ü" for j in range(D)], class_names=list("abcd") if label == "multi" else None,
        schema=Schema("svmlight", D, {"index_base": 1}), bad_lines=3,
    )  # fmt: skip
    write_layout(data, tmp_path / "d.arrow")
    back = lineal.read(tmp_path / "d.arrow")
    for what in ("X", "y", "weights", "query_ids"):
        equal(getattr(back, what), getattr(data, what))
    for what in ("feature_names", "class_names", "schema", "bad_lines"):
        assert getattr(back, what) == getattr(data, what)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_index_types_are_kept(tmp_path, index):
    write_layout(Dataset(matrix("sparse", index=index)), tmp_path / "d.arrow")
    X = open_layout(tmp_path / "d.arrow").X
    assert X.indices.dtype == X.indptr.dtype == index
    kind = pa.ipc.open_file(str(tmp_path / "d.arrow")).schema.field("indices").type
    assert pa.types.is_large_list(kind) == (index is np.int64)


def test_minimal_dataset(tmp_path):
    write_layout(Dataset(np.ones((1, 1))), tmp_path / "d.arrow")
    back = open_layout(tmp_path / "d.arrow")
    assert (back.y, back.weights, back.feature_names, back.schema) == (None, None, None, None)
    write_layout(Dataset(sparse.csr_array((3, 5), dtype=float), np.arange(3)), tmp_path / "e.arrow")
    assert open_layout(tmp_path / "e.arrow").X.nnz == 0


def test_other_arrow_readers_see_a_table(tmp_path):
    X = matrix("sparse")
    write_layout(Dataset(X, labels("text")), tmp_path / "d.arrow")
    table = pa.ipc.open_file(str(tmp_path / "d.arrow")).read_all()
    assert table["label"].to_pylist() == labels("text").tolist()
    assert table["indices"][3].as_py() == X[[3]].indices.tolist()
    assert table["values"][3].as_py() == X[[3]].data.tolist()


def test_unsorted_and_repeated_indices_become_canonical(tmp_path):
    X = csr_of_parts(np.array([1.0, 2, 4]), np.array([2, 0, 2], np.int32), np.array([0, 3, 3], np.int32), (2, 3))
    write_layout(Dataset(X), tmp_path / "d.arrow")
    back = open_layout(tmp_path / "d.arrow").X
    assert back.indices.tolist() == [0, 2]
    assert back.data.tolist() == [2, 5]
    assert X.indices.tolist() == [2, 0, 2]


def test_blocks_join_and_types_widen(tmp_path):
    parts = [
        Dataset(matrix("sparse", seed=1), np.arange(N)),
        Dataset(matrix("sparse", index=np.int64, seed=2), np.arange(N, dtype=np.int32)),
        Dataset(matrix("sparse", seed=3), np.arange(N) + 0.5),
    ]
    write_blocks(iter(parts), tmp_path / "d.arrow")
    back = open_layout(tmp_path / "d.arrow")
    np.testing.assert_array_equal(back.X.toarray(), np.vstack([part.X.toarray() for part in parts]))
    np.testing.assert_array_equal(back.y, np.concatenate([part.y for part in parts]))
    assert back.X.indices.dtype == np.int64


def test_sliced_csr_is_written_from_its_start(tmp_path):
    X = matrix("sparse")
    start = int(X.indptr[10])
    view = csr_of_parts(X.data[start:], X.indices[start:], X.indptr[10:] - X.indptr[10], (N - 10, D))
    write_layout(Dataset(view), tmp_path / "d.arrow")
    np.testing.assert_array_equal(open_layout(tmp_path / "d.arrow").X.toarray(), X.toarray()[10:])


# ---------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_opening_copies_nothing(tmp_path, kind):
    write_layout(Dataset(matrix(kind), labels("int64"), np.ones(N)), tmp_path / "d.arrow")
    file = LayoutFile(str(tmp_path / "d.arrow"), mapped=True)
    opened, whole = file.dataset(), np.frombuffer(file.pages, np.uint8)
    arrays = [opened.X] if kind == "dense" else [opened.X.data, opened.X.indices, opened.X.indptr]
    for array in [*arrays, opened.y, opened.weights]:
        assert np.shares_memory(array, whole)
        assert not array.flags.writeable
        assert array.flags.aligned


def test_files_are_read_unless_they_are_large(tmp_path, monkeypatch):
    data = Dataset(matrix("sparse"), labels("text"), np.arange(N) * 1.0)
    write_layout(data, tmp_path / "d.arrow")
    for size, options, is_mapped in (
        (1 << 40, {}, False), (1000, {}, True), (1000, {"mapped": "no"}, False), (1 << 40, {"mapped": "yes"}, True),
    ):  # fmt: skip
        monkeypatch.setattr(source, "available_memory", lambda size=size: size)
        opened = lineal.read(tmp_path / "d.arrow", **options)
        base = opened.X.data
        while isinstance(base, np.ndarray):
            base = base.base
        assert (base is not None) == is_mapped
        np.testing.assert_array_equal(opened.X.toarray(), data.X.toarray())
        np.testing.assert_array_equal(opened.y, data.y)
        assert not opened.X.data.flags.writeable


def test_blocks_have_memory_of_their_own(tmp_path):
    data = Dataset(matrix("sparse"), labels("multi"), np.arange(N) * 1.0, class_names=list("abcd"))
    write_layout(data, tmp_path / "d.arrow")
    blocks = list(lineal.read_blocks(tmp_path / "d.arrow", block_bytes=600))
    assert len(blocks) > 3
    assert all(block.X.data.flags.owndata for block in blocks)
    np.testing.assert_array_equal(sparse.vstack([block.X for block in blocks]).toarray(), data.X.toarray())
    np.testing.assert_array_equal(sparse.vstack([block.y for block in blocks]).toarray(), data.y.toarray())
    np.testing.assert_array_equal(np.concatenate([block.weights for block in blocks]), data.weights)


OPEN = """
import sys, lineal, lineal.data.read, lineal.data.binary.layout
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
data = lineal.read(sys.argv[1], mapped="yes")
print(resident() - before, data.X.shape[0])
"""

CONVERT = """
import sys, lineal, lineal.data.read, lineal.data.binary.layout, lineal.data.binary.write
peak = lambda: 1024 * int([line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1])
before = peak()
lineal.convert(sys.argv[1], sys.argv[2], block_bytes=4 << 20)
print(peak() - before)
"""

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")


def big_blocks(kind: str, n_blocks: int):
    X = matrix(kind, n=20_000, d=60)
    for _ in range(n_blocks):
        yield Dataset(X, np.arange(20_000) % 3)


def run(code: str, *arguments) -> list[int]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return [int(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


@needs_proc
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("megabytes", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_resident_memory(tmp_path, kind, megabytes):
    path = tmp_path / "d.arrow"
    write_blocks(big_blocks(kind, megabytes // (9 if kind == "dense" else 3)), path)
    assert path.stat().st_size > 0.85 * megabytes * 1e6
    added, rows = run(OPEN, path)
    assert rows % 20_000 == 0
    assert added < 15e6
    (added,) = run(CONVERT, path, tmp_path / "again.arrow")
    assert added < 60e6
    assert (tmp_path / "again.arrow").read_bytes() == path.read_bytes()


# ---------------------------------------------------------------------------------------------- conversion


def test_model_schema_goes_along(tmp_path):
    text = "a,c,y\n1,x,0\n2,z,1\n3,x,1\n"
    (tmp_path / "t.csv").write_text(text)
    converted = lineal.read(lineal.convert(tmp_path / "t.csv", tmp_path / "t.arrow"))
    direct = lineal.read(tmp_path / "t.csv")
    equal(converted.X, direct.X)
    equal(converted.y, direct.y)
    assert converted.schema == direct.schema
    assert converted.feature_names == ["a", "c=x", "c=z"]
    (tmp_path / "u.csv").write_text("c,a\nz,5\n")
    np.testing.assert_array_equal(lineal.read(tmp_path / "u.csv", schema=converted.schema).X, [[5, 0, 1]])
    (tmp_path / "v.csv").write_text("a,c,y\n1,p,0\n2,q,1\n")
    lineal.convert(tmp_path / "v.csv", tmp_path / "v.arrow")
    with pytest.raises(DataError, match="encodes its table differently from the model"):
        lineal.read(tmp_path / "v.arrow", schema=converted.schema)
    lineal.convert(tmp_path / "v.csv", tmp_path / "v.arrow", schema=direct.schema)
    assert lineal.read(tmp_path / "v.arrow", schema=direct.schema).X.shape == (2, 3)


def test_converted_files_of_a_glob(tmp_path):
    for i in range(2):
        write_layout(Dataset(matrix("sparse", seed=i), labels("int64", seed=i)), tmp_path / f"p{i}.arrow")
    data = lineal.read(tmp_path / "p*.arrow")
    np.testing.assert_array_equal(data.X.toarray(), np.vstack([matrix("dense", seed=i) for i in range(2)]))


def test_destination_must_be_arrow(tmp_path):
    with pytest.raises(OptionError, match=r"must end with .arrow"):
        write_layout(Dataset(np.ones((2, 2))), tmp_path / "d.svm")
    with pytest.raises(DataError, match=r"cannot write .*No such file"):
        write_layout(Dataset(np.ones((2, 2))), tmp_path / "nowhere" / "d.arrow")
    (tmp_path / "folder.arrow").mkdir()
    with pytest.raises(DataError, match="it is a directory"):
        write_layout(Dataset(np.ones((2, 2))), tmp_path / "folder.arrow")


def test_only_usable_data_is_written(tmp_path):
    bad = np.ones((3, 2))
    bad[2, 1] = np.inf
    for X in (bad, sparse.csr_array(bad)):
        with pytest.raises(DataError, match=r"row 2 \(counted from 0\), column 1 is inf"):
            write_layout(Dataset(X), tmp_path / "d.arrow")
    outside = csr_of_parts(np.ones(1), np.array([7], np.int32), np.array([0, 1], np.int32), (1, 3))
    with pytest.raises(DataError, match="index 7 is out of range for 3 columns"):
        write_layout(Dataset(outside), tmp_path / "d.arrow")
    with pytest.raises(DataError, match="only float32 and float64"):
        write_layout(Dataset(np.ones((2, 2), int)), tmp_path / "d.arrow")
    with pytest.raises(DataError, match="no rows"):
        write_blocks(iter([]), tmp_path / "d.arrow")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------------------------------------- atomicity


def failing_blocks(error: BaseException):
    yield Dataset(matrix("sparse"), labels("int64"))
    raise error


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt(), MemoryError()])
def test_failure_leaves_the_destination_alone(tmp_path, error):
    path = tmp_path / "d.arrow"
    path.write_bytes(b"precious")
    with pytest.raises(type(error)):
        write_blocks(failing_blocks(error), path)
    assert os.listdir(tmp_path) == ["d.arrow"]
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("where", ["fsync", "replace", "write"])
def test_full_disk(tmp_path, monkeypatch, where):
    path = tmp_path / "d.arrow"
    path.write_bytes(b"precious")

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "write":
        monkeypatch.setattr("lineal.data.binary.write._Sink.write", full)
    else:
        monkeypatch.setattr(os, where, full)
    with pytest.raises(DataError, match=r"cannot write .*No space left on device"):
        write_layout(Dataset(matrix("sparse"), labels("int64")), path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["d.arrow"]
    assert path.read_bytes() == b"precious"


def test_malformed_source_leaves_nothing(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2\n")
    with pytest.raises(DataError, match=r"t.csv:3:1"):
        lineal.convert(tmp_path / "t.csv", tmp_path / "t.arrow")
    assert os.listdir(tmp_path) == ["t.csv"]


def test_a_file_can_be_converted_onto_itself(tmp_path):
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix("sparse"), labels("text")), path)
    before = path.read_bytes()
    lineal.convert(path, path)
    assert path.read_bytes() == before


# ---------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_truncated_files(tmp_path, kind):
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix(kind), labels("text"), np.ones(N)), path)
    content = path.read_bytes()
    for size in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"d.arrow"):
            open_layout(path)
        with pytest.raises(DataError):
            lineal.read(path)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("label", ["int64", "text", "multi"])
def test_altered_bytes_never_crash(tmp_path, kind, label):
    path = tmp_path / "d.arrow"
    names = list("abcd") if label == "multi" else None
    write_layout(Dataset(matrix(kind), labels(label), np.ones(N), class_names=names), path)
    content = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(250):
        damaged = bytearray(content)
        for position in rng.integers(0, len(content), rng.integers(1, 5)):
            damaged[position] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            data = open_layout(path)
        except DataError:
            continue
        check_sparse(data)  # what opens is safe to use
        with np.errstate(all="ignore"):
            data.X @ np.ones(data.X.shape[1])
        assert len(data) == N


def rewritten(path: Path, change) -> None:
    """Write the file again with another description or other columns."""
    reader = pa.ipc.open_file(pa.BufferReader(path.read_bytes()))
    batch, about = reader.get_batch(0), json.loads(reader.schema.metadata[b"lineal"])
    batch = change(about, batch) or batch
    schema = batch.schema.with_metadata({b"lineal": json.dumps(about).encode()})
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def with_column(name: str, array):
    def change(about, batch):
        position = batch.schema.names.index(name)
        return batch.set_column(position, name, array(batch.column(position)))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about, batch: about.update(version=2), "layout version 2, newer than this lineal's 1: update lineal"),
        (lambda about, batch: about.update(version="x"), "no version"),
        (lambda about, batch: about.update(n_rows=7), "60 rows instead of 7"),
        (lambda about, batch: about.update(n_features=3), "is out of range for 3 columns"),
        (lambda about, batch: about.update(n_features="x"), "damaged"),
        (lambda about, batch: about.update(n_features=None), "damaged"),
        (lambda about, batch: about.update(feature_names=["a"]), "1 names for 30 columns"),
        (lambda about, batch: about.update(schema={"format": "vw"}), "damaged"),
        (
            lambda about, batch: about.update(schema={"format": "array", "n_features": 3, "settings": {}}),
            "its schema has 3",
        ),
        (
            lambda about, batch: about.update(schema={"format": "svmlight", "n_features": D, "settings": {}}),
            "d.arrow is damaged: .*index_base of a svmlight schema is None",
        ),
        (lambda about, batch: about.update(feature_names="x" * D), "feature_names are no list of texts"),
        (lambda about, batch: about.update(feature_names=[1] * D), "feature_names are no list of texts"),
        (lambda about, batch: about.update(class_names="a"), "class_names are no list"),
        (lambda about, batch: about.update(class_names=["a"]), "column 'label' has type int64"),
        (with_column("indices", lambda c: pa.array([[-1], *c.to_pylist()[1:]], c.type)), "damaged"),
        (with_column("indices", lambda c: c.cast(pa.list_(pa.int16()))), "column 'indices' has type list"),
        (with_column("values", lambda c: pa.array([None] * N, c.type)), "damaged"),
        (with_column("label", lambda c: pa.array([None] * N, c.type)), "missing values"),
        (with_column("label", lambda c: c.cast(pa.int16())), "column 'label' has type int16"),
        (with_column("weight", lambda c: c.cast(pa.float32())), "column 'weight' has type float"),
    ],
)
def test_altered_descriptions(tmp_path, change, message):
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix("sparse"), labels("int64"), np.ones(N)), path)
    rewritten(path, change)
    with pytest.raises(DataError, match=message):
        open_layout(path)


def patch(path: Path, section: np.ndarray, base: int, position: int, value: int) -> None:
    start = section.__array_interface__["data"][0] - base + position * section.itemsize
    content = bytearray(path.read_bytes())
    content[start : start + section.itemsize] = np.array([value], section.dtype).tobytes()
    path.write_bytes(content)


@pytest.mark.parametrize("step", [8, 1 << 18])
@pytest.mark.parametrize(
    ("part", "position", "value", "message"),
    [
        ("indices", 17, D, f"index {D} is out of range"), ("indices", 17, -1, "index -1 is out of range"),
        ("indices", 0, 2**31 - 1, "is out of range"), ("indptr", 9, 10**6, "row offsets"),
        ("indptr", 9, -5, "row offsets"),
        ("indptr", 0, 1, "offsets"), ("indptr", N, 3, "damaged"),
    ],
)  # fmt: skip
def test_hostile_indices(tmp_path, monkeypatch, step, part, position, value, message):
    monkeypatch.setattr(checks, "CHECK_STEP", step)
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix("sparse")), path)
    file = LayoutFile(str(path), mapped=True)
    patch(path, getattr(file.dataset().X, part), file.base, position, value)
    with pytest.raises(DataError, match=message):
        open_layout(path)
    if part == "indices":
        assert len(lineal.read(path, trusted=True)) == N  # the caller's word


def test_foreign_tables_are_tables(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "y": [0, 1]})
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert not layout.is_layout(str(tmp_path / "t.arrow"))
    np.testing.assert_array_equal(lineal.read(tmp_path / "t.arrow").X, [[1], [2]])
    with pytest.raises(DataError, match="is an ordinary Arrow table"):
        open_layout(tmp_path / "t.arrow")
    write_layout(Dataset(np.ones((2, 2))), tmp_path / "u.arrow")
    with pytest.raises(DataError, match="some of these Arrow files"):
        lineal.read(tmp_path / "*.arrow")


def test_kinds_must_not_change_between_blocks(tmp_path):
    first = Dataset(matrix("sparse"), labels("int64"))
    for other in (
        Dataset(matrix("dense"), labels("int64")),
        Dataset(matrix("sparse")),
        Dataset(matrix("sparse"), labels("text")),
        Dataset(matrix("sparse"), labels("int64"), np.ones(N)),
    ):
        with pytest.raises(DataError, match=r"from row 60 on|rows from 60 on"):
            write_blocks(iter([first, other]), tmp_path / "d.arrow")


def test_offsets_widen_with_the_number_of_entries(tmp_path, monkeypatch):
    """From 2**31 entries on, lists are LargeLists; the test pretends that there are as many."""
    collector = Collector(str(tmp_path))
    collector.add(Dataset(matrix("sparse")))
    assert collector._offsets("X")[1] is False
    collector.close()
    (tmp_path / "two").mkdir()
    collector = Collector(str(tmp_path / "two"))
    collector.add(Dataset(matrix("sparse")))
    collector.ends["X"] = 2**31
    assert collector._offsets("X")[1] is True
    collector.write(str(tmp_path / "d.arrow"))
    back = open_layout(tmp_path / "d.arrow")
    assert (back.X.indptr.dtype, back.X.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(np.diff(back.X.indptr), np.diff(matrix("sparse").indptr))
    collector.close()


def test_deeply_nested_descriptions(tmp_path):
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix("sparse")), path)
    batch = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).get_batch(0)
    schema = batch.schema.with_metadata({b"lineal": b"[" * 100_000})
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    with pytest.raises(DataError, match=r"d.arrow is damaged"):
        lineal.read(path)


@pytest.mark.parametrize("step", [1, 2, 3, 1 << 18])
@pytest.mark.parametrize(
    ("indices", "wrong"),
    [
        ([0, 2, 1, 0, 1, 2], None), ([0, 2, 2, 0, 1, 2], None), ([2, 0, 1, 0, 1, 2], 0), ([1, 1, 1, 0, 1, 2], 0),
        ([0, 2, 1, 0, 2, 2], 3), ([0, 2, 1, 0, 2, 1], 3), ([0, 2, 1, 2, 0, 1], 3),
    ],
)  # fmt: skip
def test_rows_ascend(monkeypatch, step, indices, wrong):
    monkeypatch.setattr(checks, "CHECK_STEP", step)
    offsets = np.array([0, 2, 3, 3, 6, 6], np.int32)

    def check() -> None:
        check_rows(lambda a, b: offsets[a:b], 6, lambda a, b: np.array(indices, np.int32)[a:b], 6, 3, "d")

    if wrong is None:
        check()
    else:
        with pytest.raises(DataError, match=f"d is damaged: the indices of row {wrong} do not ascend"):
            check()


def test_offsets_of_values_are_those_of_indices(tmp_path):
    path = tmp_path / "d.arrow"
    write_layout(Dataset(matrix("sparse")), path)

    def change(about, batch):
        values = batch.column(1)
        offsets = values.offsets.to_numpy().copy()
        offsets[1:-1] = offsets[-1]
        moved = pa.ListArray.from_arrays(pa.array(offsets), values.values)
        return batch.set_column(1, "values", moved)

    rewritten(path, change)
    with pytest.raises(DataError, match="indices and values have different row offsets near row 0"):
        open_layout(path)


def test_unsorted_rows_are_sorted_when_written(tmp_path):
    X = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    write_layout(Dataset(X), tmp_path / "d.arrow")
    np.testing.assert_array_equal(open_layout(tmp_path / "d.arrow").X.toarray(), [[2, 1]])


# --- temporary files


def test_files_open_whatever_the_folder_for_temporary_files_is(tmp_path, monkeypatch):
    path = tmp_path / "rows.arrow"
    write_layout(Dataset(np.eye(3), np.arange(3)), path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    if sys.platform == "linux":
        np.testing.assert_array_equal(open_layout(path, mapped="no").X, np.eye(3))
    monkeypatch.setattr(os, "memfd_create", no_file, raising=False)
    with pytest.raises(DataError, match=r"opening .*rows.arrow needs a temporary file \(No such file.*TMPDIR"):
        open_layout(path, mapped="no")


def no_file(*given):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
