"""NumPy files: read piece by piece or mapped, never unpickled, one-line errors for everything else."""

from __future__ import annotations

import gzip
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import lineal
from lineal.data import arrays
from lineal.data.schema import Schema
from lineal.errors import DataError, OptionError

X = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_read_or_mapped(tmp_path, dtype, order):
    np.save(tmp_path / "x.npy", np.asarray(X, dtype=dtype, order=order))
    for mapped in ("auto", "no", "yes"):
        data = lineal.read(tmp_path / "x.npy", mapped=mapped)
        assert isinstance(data.X, np.memmap) == (mapped == "yes")
        assert not data.X.flags.writeable
        assert data.X.dtype == dtype
        assert data.X.flags.f_contiguous == (order == "F")
        np.testing.assert_array_equal(data.X, X)
        assert data.y is None
        assert (data.schema.format, data.schema.n_features) == ("array", 3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block_bytes", [1, 50, 1000])
def test_blocks_of_npy(tmp_path, monkeypatch, dtype, order, block_bytes):
    monkeypatch.setattr(arrays, "STEP_CELLS", 5)
    np.save(tmp_path / "x.npy", np.asarray(X, dtype=dtype, order=order))
    blocks = list(lineal.read_blocks(tmp_path / "x.npy", block_bytes=block_bytes))
    assert len(blocks) == {1: 4, 50: 2, 1000: 1}[block_bytes]
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), X)
    with pytest.raises(DataError, match="has 3 columns, expected 4"):
        list(lineal.read_blocks(tmp_path / "x.npy", schema=Schema("array", 4)))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "?", "f2", ">f8", ">i4"])
def test_other_numbers_are_converted(tmp_path, dtype):
    values = X.astype(dtype)
    np.save(tmp_path / "x.npy", values)
    for target in ("float64", "float32"):
        data = lineal.read(tmp_path / "x.npy", dtype=target)
        assert data.X.dtype == np.dtype(target)
        np.testing.assert_array_equal(data.X, values.astype(target))


def test_conversion_by_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("lineal.data.arrays.STEP_CELLS", 4)
    np.save(tmp_path / "x.npy", X.astype(np.int64))
    np.testing.assert_array_equal(lineal.read(tmp_path / "x.npy").X, X)


def test_precision_changes_only_when_asked(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    assert lineal.read(tmp_path / "x.npy").X.dtype == np.float32
    assert lineal.read(tmp_path / "x.npy", dtype="float64").X.dtype == np.float64
    assert next(lineal.read_blocks(tmp_path / "x.npy", dtype="float64")).X.dtype == np.float64


def test_npz_with_everything(tmp_path):
    np.savez(
        tmp_path / "d.npz", X=X, y=[0, 1, 1, 0], weights=[1, 2, 3, 4.5], feature_names=["a", "b", "c"],
        class_names=["no", "yes"],
    )  # fmt: skip
    data = lineal.read(tmp_path / "d.npz")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, ["no", "yes", "yes", "no"])
    np.testing.assert_array_equal(data.weights, [1, 2, 3, 4.5])
    assert data.feature_names == ["a", "b", "c"]
    assert data.class_names is None


@pytest.mark.parametrize("y", [np.array([3, 1, 3, 2]), np.array([0.5, 1, 1, 2]), np.array(list("abca")), X[:, 0] > 2])
def test_labels_keep_their_type(tmp_path, y):
    np.savez_compressed(tmp_path / "d.npz", X=X, y=y)
    data = lineal.read(tmp_path / "d.npz")
    np.testing.assert_array_equal(data.y, y)
    assert data.y.dtype == y.dtype


@pytest.mark.parametrize("names", [None, ["p", "q"]])
def test_indicator_matrix_is_multilabel(tmp_path, names):
    y = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
    extra = {} if names is None else {"class_names": names}
    np.savez(tmp_path / "d.npz", X=X, y=y, **extra)
    data = lineal.read(tmp_path / "d.npz")
    assert data.is_multilabel
    assert data.y.dtype == bool
    np.testing.assert_array_equal(data.y.toarray(), y)
    assert data.class_names == (names or [0, 1])


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
def test_scipy_sparse(tmp_path, make):
    sparse.save_npz(tmp_path / "s.npz", make(X))
    data = lineal.read(tmp_path / "s.npz")
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), X)


def test_csr_parts(tmp_path):
    S, Y = sparse.csr_array(X), sparse.csr_array(X > 5)
    parts = {
        f"{key}_{part}": getattr(m, part) for key, m in (("X", S), ("Y", Y)) for part in ("data", "indices", "indptr")
    }
    np.savez(tmp_path / "d.npz", X_shape=S.shape, Y_shape=Y.shape, **parts)
    data = lineal.read(tmp_path / "d.npz")
    np.testing.assert_array_equal(data.X.toarray(), X)
    np.testing.assert_array_equal(data.y.toarray(), X > 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X_indices": [0, 9]}, "disagree"), ({"X_indices": [0, -1]}, "disagree"),
        ({"X_indptr": [0, 2, 1]}, "disagree"),
        ({"X_indptr": [0, 1, 5]}, "disagree"), ({"X_indices": [0.0, 1.0]}, "vector of integers"),
        ({"X_shape": [2]}, "two integers"), ({"X_data": [1.0]}, "disagree"),
    ],
)  # fmt: skip
def test_damaged_csr_parts(tmp_path, change, message):
    parts = {"X_data": [1.0, 2.0], "X_indices": [0, 1], "X_indptr": [0, 1, 2], "X_shape": [2, 3], **change}
    np.savez(tmp_path / "d.npz", **parts)
    with pytest.raises(DataError, match=message):
        lineal.read(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X[0]}, "X must have two dimensions"),
        ({"X": X.astype(str)}, "X must be numeric"),
        ({"X": X.astype(complex)}, "X must be numeric"),
        ({"X": X[:0]}, "X is empty"),
        ({"X": X[:, :0]}, "X is empty"),
        ({"X": X, "y": [1, 2]}, "X has 4 rows, but y has 2"),
        ({"X": X, "y": X[:, :1, None]}, "y must be a vector"),
        ({"X": X, "y": [0, 1, np.nan, 1]}, r"row 2 .*label is not a finite number"),
        ({"X": X, "y": X[:, :2]}, "only 0 and 1"),
        ({"X": X, "y": [0, 1, 2, 1], "class_names": ["a", "b"]}, "y holds 0 to 2, but there are 2 class_names"),
        ({"X": X, "feature_names": ["a"]}, "there are 3 columns"),
        ({"X": X, "weights": [1, 2]}, "weights must be 4 numbers"),
        ({"X": X, "weights": [1, 2, -1, 0]}, "finite numbers, at least 0"),
        ({"Z": X}, "has no array 'X'; it holds Z"),
        ({"X": np.array([[{}]])}, "it holds Python objects"),
        ({"X": X, "y": np.array([None] * 4)}, "it holds Python objects"),
    ],
)
def test_wrong_archives(tmp_path, arrays, message):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=message) as caught:
        lineal.read(tmp_path / "d.npz")
    assert "d.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]]))
    with pytest.raises(DataError, match="it holds Python objects"):
        lineal.read(tmp_path / "x.npy")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_truncated_and_foreign_files(tmp_path, name):
    path = tmp_path / name
    np.save(path, X) if name == "x.npy" else np.savez(path, X=X, y=np.arange(4))
    content = path.read_bytes()
    for size in (0, 1, 5, 20, len(content) // 2, len(content) - 10):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=f"{name} is not a readable NumPy file"):
            lineal.read(path)
    path.write_text("hello world, this is not an array at all")
    with pytest.raises(DataError, match="is not a readable NumPy file"):
        lineal.read(path)


def test_infinities_are_found_by_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("lineal.data.dataset.CHECK_STEP", 6)
    bad = X.copy()
    bad[3, 1] = np.nan
    np.savez(tmp_path / "d.npz", X=bad, feature_names=["a", "b", "c"])
    with pytest.raises(DataError, match=r"d.npz: row 3 \(counted from 0\), column 'b' is nan"):
        lineal.read(tmp_path / "d.npz")
    np.save(tmp_path / "x.npy", bad)
    with pytest.raises(DataError, match=r"row 3 \(counted from 0\), column 1 is nan"):
        list(lineal.read_blocks(tmp_path / "x.npy", block_bytes=24))
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(bad))
    with pytest.raises(DataError, match=r"row 3 \(counted from 0\), column 1 is nan"):
        lineal.read(tmp_path / "s.npz")


def test_blocks_are_views(tmp_path):
    np.save(tmp_path / "x.npy", X)
    blocks = list(lineal.read_blocks(tmp_path / "x.npy", block_bytes=2 * 24))
    assert [len(block) for block in blocks] == [2, 2]
    np.testing.assert_array_equal(np.vstack([block.X for block in blocks]), X)
    S = sparse.csr_array(np.where(X > 3, X, 0))
    sparse.save_npz(tmp_path / "s.npz", S)
    blocks = list(lineal.read_blocks(tmp_path / "s.npz", block_bytes=1))
    assert [len(block) for block in blocks] == [1, 1, 1, 1]
    np.testing.assert_array_equal(sparse.vstack([block.X for block in blocks]).toarray(), S.toarray())


def test_files_of_a_glob_are_stacked(tmp_path):
    for i in range(2):
        np.savez(tmp_path / f"p{i}.npz", X=X + i, y=np.arange(4) + i)
    data = lineal.read(tmp_path / "p*.npz")
    np.testing.assert_array_equal(data.X, np.vstack([X, X + 1]))
    np.testing.assert_array_equal(data.y, [0, 1, 2, 3, 1, 2, 3, 4])
    np.savez(tmp_path / "p2.npz", X=X[:, :2], y=np.arange(4))
    with pytest.raises(DataError, match=r"p0.npz and .*p2.npz differ in their columns: 3 and 2"):
        lineal.read(tmp_path / "p*.npz")


def test_compressed_npy(tmp_path):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    np.testing.assert_array_equal(lineal.read(tmp_path / "x.npy.gz").X, X)


def test_schema_fixes_the_number_of_columns(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "z.npy", X[:, :2])
    schema = lineal.read(tmp_path / "x.npy").schema
    with pytest.raises(DataError, match=r"z.npy has 2 columns, expected 3"):
        lineal.read(tmp_path / "z.npy", schema=schema)


def test_options_of_other_formats_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(OptionError, match="label='a' does not apply to npy files"):
        lineal.read(tmp_path / "x.npy", label="a")


def test_arrays_do_not_load_pyarrow_or_numba(tmp_path):
    np.save(tmp_path / "x.npy", X)
    code = (
        f"import sys, lineal; lineal.read({str(tmp_path / 'x.npy')!r}); "
        "print([m for m in ('pyarrow', 'numba', 'sklearn') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
