"""Hostile arrays × every public entry point. Run as a program: one line of JSON per attempt, so that whoever reads them
knows which attempt ended the process.

    python hostile_arrays.py BYTES SHARE NAME...        with so much memory, one of SHARE attempts of these estimators
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

N, D = 40, 6


def clean() -> tuple[np.ndarray, np.ndarray]:
    """X of small integers, so that every numeric type holds them; labels of two classes."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, (N, D)).astype(np.float64)
    X[0] = 0.0
    return X, (X[:, 0] + X[:, 1] > X[:, 2]).astype(np.int64)


# --- hostile matrices -----------------------------------------------------------------------------------------------


def csr(X: np.ndarray) -> Any:
    """A CSR matrix with the same index type everywhere."""
    return sparse.csr_array(X)


def _set(name: str, make: Callable[[Any], Any], kind: str = "csr") -> Callable[[np.ndarray], Any]:
    """A sparse matrix with one part replaced by hand."""

    def build(X: np.ndarray) -> Any:
        matrix = getattr(sparse, f"{kind}_array")(csr(X))
        setattr(matrix, name, make(getattr(matrix, name).copy()))
        return matrix

    return build


def _put(name: str, at: int, value: int, kind: str = "csr", dtype: Any = None) -> Callable[[np.ndarray], Any]:
    def change(part: np.ndarray) -> np.ndarray:
        part = part if dtype is None else part.astype(dtype)
        part[at] = value
        return part

    return _set(name, change, kind)


def _coordinates(at: int, value: int, axis: int) -> Callable[[np.ndarray], Any]:
    def build(X: np.ndarray) -> Any:
        matrix = sparse.coo_array(X)
        coords = [part.astype(np.int64) for part in matrix.coords]
        coords[axis][at] = value
        matrix.coords = tuple(coords)
        return matrix

    return build


def _lil(X: np.ndarray) -> Any:
    matrix = sparse.lil_array(X)
    matrix.rows[1] = [10**9]
    matrix.data[1] = [1.0]
    return matrix


def _uneven_lil(X: np.ndarray) -> Any:
    matrix = sparse.lil_array(X)
    matrix.data[1] = [1.0] * 5000
    return matrix


def _dok(X: np.ndarray) -> Any:
    matrix = sparse.dok_array(X)
    matrix._dict[(10**9, 0)] = 1.0
    return matrix


def _dia(X: np.ndarray) -> Any:
    matrix = sparse.dia_array(X)
    matrix.offsets = np.arange(500, dtype=np.int32)
    return matrix


def _bsr(at: int) -> Callable[[np.ndarray], Any]:
    def build(X: np.ndarray) -> Any:
        matrix = sparse.bsr_array(X, blocksize=(2, 2))
        matrix.indices = matrix.indices.copy()
        matrix.indices[0] = at
        return matrix

    return build


def _reshaped(X: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = csr(X)
    matrix._shape = shape
    return matrix


def _lying(X: np.ndarray) -> Any:
    """Entries in two halves, out of order, with flags that say otherwise."""
    whole = csr(X)
    indices, data, starts = [], [], [0]
    for i in range(N):
        part = slice(whole.indptr[i], whole.indptr[i + 1])
        indices += [*whole.indices[part][::-1], *whole.indices[part]]
        data += [*(whole.data[part][::-1] / 2), *(whole.data[part] / 2)]
        starts.append(len(indices))
    matrix = sparse.csr_array((np.array(data), np.array(indices, np.int32), np.array(starts, np.int32)), X.shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def _spare_room(X: np.ndarray) -> Any:
    matrix = csr(X)
    matrix.indices = np.concatenate([matrix.indices, np.full(9, 10**9, matrix.indices.dtype)])
    matrix.data = np.concatenate([matrix.data, np.full(9, np.nan)])
    return matrix


def _sparse_nan(value: float, kind: str = "csr") -> Callable[[np.ndarray], Any]:
    return _put("data", 2, value, kind)  # type: ignore[arg-type]


def _masked(X: np.ndarray) -> Any:
    return np.ma.MaskedArray(X, np.eye(*X.shape, dtype=bool))


class Subclass(np.ndarray):
    """An array of a user's own kind."""


def _read_only(X: np.ndarray) -> Any:
    X = X.copy()
    X.flags.writeable = False
    return X


def _read_only_csr(X: np.ndarray) -> Any:
    matrix = csr(X)
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp())


def _mapped(X: np.ndarray) -> Any:
    path = _folder() / f"{X.shape[0]}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def _mapped_csr(X: np.ndarray) -> Any:
    matrix = csr(X)
    for name in ("data", "indices", "indptr"):
        path = _folder() / f"{name}{X.shape[0]}.npy"
        np.save(path, getattr(matrix, name))
        setattr(matrix, name, np.load(path, mmap_mode="r"))
    return matrix


def _masked_coo(X: np.ndarray) -> Any:
    matrix = sparse.coo_array(X)
    matrix.data = np.ma.MaskedArray(matrix.data, matrix.data > 1)
    return matrix


def _nullable(frame: Any) -> Any:
    frame = frame.astype("Int64")
    frame.iloc[3, 2] = None
    return frame


def _frame(X: np.ndarray, change: Callable[[Any], Any] = lambda frame: frame) -> Any:
    import pandas as pd

    return change(pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]))


def _object_column(frame: Any) -> Any:
    frame = frame.astype({"c2": object})
    frame.loc[3, "c2"] = "word"
    return frame


def _absent(value: Any) -> Callable[[Any], Any]:
    def change(frame: Any) -> Any:
        frame = frame.astype({"c2": object})
        frame.loc[3, "c2"] = value
        return frame

    return change


def _renamed(frame: Any) -> Any:
    return frame.rename(columns={"c1": "c0"})


#: Numbers of columns around the largest that int32 can number.
WIDE = (2**31 - 1, 2**31, 2**40)


def wide(columns: int) -> Any:
    """A few entries in very many columns."""
    found = np.sort(np.random.default_rng(1).integers(0, columns, (N, 5)), axis=1)
    return sparse.csr_array((np.ones(5 * N), found.reshape(-1), np.arange(0, 5 * N + 1, 5)), (N, columns))


#: Matrices that hold the same numbers as X: the answer must be that of X.
SAME: dict[str, Callable[[np.ndarray], Any]] = {
    "csr": csr,
    "csc": sparse.csc_array,
    "csr_matrix": sparse.csr_matrix,
    "coo": sparse.coo_array,
    "lil": sparse.lil_array,
    "dok": sparse.dok_array,
    "dia": sparse.dia_array,
    "bsr": lambda X: sparse.bsr_array(X, blocksize=(2, 2)),
    "coo in two halves": lambda X: sparse.coo_array(
        (np.tile(sparse.coo_array(X / 2).data, 2), tuple(np.tile(c, 2) for c in sparse.coo_array(X).coords)), X.shape
    ),
    "int64 indices": _set("indices", lambda part: part.astype(np.int64)),
    "int64 pointers": _set("indptr", lambda part: part.astype(np.int64)),
    "flags that lie": _lying,
    "spare room": _spare_room,
    "sparse bool": lambda X: sparse.csr_array((X > 0).astype(bool)),
    "sparse integers": lambda X: csr(X.astype(np.int32)),
    "sparse uint8": lambda X: csr(X.astype(np.uint8)),
    "sparse float32": lambda X: csr(X.astype(np.float32)),
    "sparse longdouble": lambda X: csr(X.astype(np.longdouble)),
    "read-only csr": _read_only_csr,
    "indices big-endian": _set("indices", lambda part: part.astype(">i4")),
    "mapped csr": lambda X: _mapped_csr(X),
    "data with a mask without masked entries": _set("data", lambda part: np.ma.MaskedArray(part, part > 1e9)),
    "sparse big-endian": _set("data", lambda part: part.astype(">f8")),
    "sparse float16": _set("data", lambda part: part.astype(np.float16)),
    "float16": lambda X: X.astype(np.float16),
    "float32": lambda X: X.astype(np.float32),
    "longdouble": lambda X: X.astype(np.longdouble),
    "big-endian": lambda X: X.astype(">f8"),
    "integers": lambda X: X.astype(np.int64),
    "uint8": lambda X: X.astype(np.uint8),
    "bool": lambda X: X > 0,
    "objects": lambda X: X.astype(object),
    "every other row and column": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "fortran order": np.asfortranarray,
    "read-only": _read_only,
    "mapped": _mapped,
    "subclass": lambda X: X.view(Subclass),
    "lists": lambda X: X.tolist(),
    "a mask without masked entries": lambda X: np.ma.MaskedArray(X, np.zeros(X.shape, bool)),
    "frame": _frame,
    "negative zeros": lambda X: np.where(X == 0.0, -0.0, X),
}

#: Matrices that must be refused.
BAD: dict[str, Callable[[np.ndarray], Any]] = {
    "index -1": _put("indices", 3, -1),
    "index d": _put("indices", 3, D),
    "index 2^31-1": _put("indices", 3, 2**31 - 1),
    "index 2^40": _put("indices", 3, 2**40, dtype=np.int64),
    "index -2^31": _put("indices", 0, -(2**31)),
    "last index 2^30": _put("indices", -1, 2**30),
    "csc index -1": _put("indices", 3, -1, "csc"),
    "csc index 2^31-1": _put("indices", 3, 2**31 - 1, "csc"),
    "pointer too large": _put("indptr", 5, 10**6),
    "last pointer too large": _put("indptr", -1, 10**6),
    "last pointer 2^40": _put("indptr", -1, 2**40, dtype=np.int64),
    "pointer negative": _put("indptr", 5, -7),
    "first pointer not zero": _put("indptr", 0, 2),
    "first pointer negative": _put("indptr", 0, -2),
    "last pointer negative": _put("indptr", -1, -1),
    "pointers too long": _set("indptr", lambda part: np.append(part, part[-1])),
    "pointers far too long": _set("indptr", lambda part: np.append(part, np.arange(5000) * 1000)),
    "pointers too short": _set("indptr", lambda part: part[:-3]),
    "no pointers": _set("indptr", lambda part: part[:0]),
    "csc pointers too long": _set("indptr", lambda part: np.append(part, [10**6] * 9), "csc"),
    "data too short": _set("data", lambda part: part[:-5]),
    "indices too short": _set("indices", lambda part: part[:-5]),
    "indices as floats": _set("indices", lambda part: part.astype(np.float64)),
    "indices as uint16": _set("indices", lambda part: part.astype(np.uint16)),
    "indices as a list": _set("indices", lambda part: part.tolist()),
    "indices in two dimensions": _set("indices", lambda part: part[None]),
    "data of objects": _set("data", lambda part: np.array([None] * len(part))),
    "pointers of objects": _set("indptr", lambda part: part.astype(object)),
    "row of a coo": _coordinates(3, 10**9, 0),
    "column of a coo": _coordinates(3, -1, 1),
    "column of a coo 2^40": _coordinates(3, 2**40, 1),
    "index of a bsr": _bsr(10**8),
    "negative index of a bsr": _bsr(-1),
    "index of a lil": _lil,
    "uneven lil": _uneven_lil,
    "key of a dok": _dok,
    "diagonals of a dia": _dia,
    "sparse NaN": _sparse_nan(np.nan),
    "sparse inf": _sparse_nan(np.inf),
    "csc NaN": _sparse_nan(np.nan, "csc"),
    "sparse complex": lambda X: csr(X + 1j),
    "2^31 columns": lambda X: sparse.csr_array((N, 2**31)),
    "NaN": lambda X: np.where(np.eye(*X.shape) > 0, np.nan, X),
    "inf": lambda X: np.where(np.eye(*X.shape) > 0, -np.inf, X),
    "too large a longdouble": lambda X: X.astype(np.longdouble) + np.longdouble("1e4000"),
    "complex": lambda X: X + 1j,
    "masked": _masked,
    "masked rows in a list": lambda X: list(_masked(X)),
    "masked integers": lambda X: np.ma.MaskedArray(X.astype(int), X > 1),
    "one dimension": lambda X: X[:, 0].copy(),
    "no dimension": lambda X: np.float64(1.0),
    "three dimensions": lambda X: X[:, :, None],
    "no columns": lambda X: X[:, :0],
    "no rows": lambda X: X[:0],
    "no sparse rows": lambda X: csr(X)[:0],
    "no sparse columns": lambda X: csr(X)[:, :0],
    "pointers decrease": _put("indptr", 7, 0),
    "2^40 rows": lambda X: _reshaped(X, (2**40, D)),
    "2^40 columns": lambda X: _reshaped(X, (N, 2**40)),
    "one column less": lambda X: _reshaped(X, (N, D - 1)),
    "sparse vector": lambda X: sparse.coo_array(X[0]),
    "ragged lists": lambda X: [[1.0, 2.0], [3.0]] * (len(X) // 2),
    "texts": lambda X: np.full(X.shape, "word"),
    "bytes": lambda X: np.full(X.shape, b"word"),
    "dates": lambda X: np.full(X.shape, np.datetime64("2020-01-01")),
    "durations": lambda X: np.full(X.shape, np.timedelta64(5, "s")),
    "records": lambda X: np.zeros(len(X), [("a", float), ("b", int)]),
    "None": lambda X: None,
    "a number": lambda X: 3,
    "a dict": lambda X: {"a": 1},
    "objects with None": lambda X: np.where(np.eye(*X.shape) > 0, None, X.astype(object)),
    "objects with texts": lambda X: np.where(np.eye(*X.shape) > 0, "word", X.astype(object)),
    "frame with a word": lambda X: _frame(X, _object_column),
    "frame with None": lambda X: _frame(X, _absent(None)),
    "frame with NaN": lambda X: _frame(X, _absent(float("nan"))),
    "frame with dates": lambda X: _frame(X, lambda frame: frame.assign(c1=np.datetime64("2020-01-01"))),
}  # fmt: skip

#: Neither: an error or some answer, but no crash and no NaN.
ODD: dict[str, Callable[[np.ndarray], Any]] = {
    "np.matrix": np.asmatrix,
    "data with masked entries": _set("data", lambda part: np.ma.MaskedArray(part, part > 1)),
    "coo with masked entries": lambda X: _masked_coo(X),
    "indices with masked entries": _set("indices", lambda part: np.ma.MaskedArray(part, part > 1)),
    "masked cells in lists": lambda X: [[np.ma.masked, *row[1:]] for row in X.tolist()],
    "masked cells in objects": lambda X: np.where(np.eye(*X.shape) > 0, np.ma.masked, X.astype(object)),
    "frame with a masked cell": lambda X: _frame(X, _absent(np.ma.masked)),
    "frame of nullable integers": lambda X: _frame(X, _nullable),
    "frame with a column twice": lambda X: _frame(X, _renamed),
    "huge numbers": lambda X: X * 1e300,
    "huge sparse numbers": lambda X: csr(X * 1e300),
    "tiny numbers": lambda X: X * 1e-300,
    "numbers as texts": lambda X: X.astype(str),
    "more columns": lambda X: np.hstack([X, X]),
    "more rows": lambda X: np.vstack([X, X]),
    "a generator": lambda X: (row for row in X),
}


# --- hostile labels and weights -------------------------------------------------------------------------------------

#: Labels (of y with two classes) that mean the same: predictions must be those of y, in the order of the classes.
SAME_Y: dict[str, Callable[[np.ndarray], Any]] = {
    "texts": lambda y: np.array(["a", "b"])[y],
    "object texts": lambda y: np.array(["a", "b"], object)[y],
    "beyond 2^53": lambda y: y + (2**53 + 1),
    "beyond 2^63": lambda y: y.astype(np.uint64) + np.uint64(2**63 + 1),
    "list beyond 2^63": lambda y: [int(label) + 2**64 - 2 for label in y],
    "lowest int64": lambda y: y + np.iinfo(np.int64).min,
    "bool": lambda y: y > 0,
    "big-endian": lambda y: y.astype(">i8"),
    "int8": lambda y: (y * 200 - 100).astype(np.int8),
    "column": lambda y: y.astype(np.int32)[:, None][:, 0],
    "list": lambda y: y.tolist(),
    "read-only": lambda y: _read_only(y),
    "a mask without masked entries": lambda y: np.ma.MaskedArray(y, np.zeros(len(y), bool)),
    "series": lambda y: _frame(y[:, None])["c0"],
}

BAD_Y: dict[str, Callable[[np.ndarray], Any]] = {
    "too short": lambda y: y[:-1],
    "too long": lambda y: np.append(y, 0),
    "empty": lambda y: y[:0],
    "one class": lambda y: np.zeros_like(y),
    "NaN": lambda y: np.where(np.arange(len(y)) == 3, np.nan, y),
    "inf": lambda y: np.where(np.arange(len(y)) == 3, np.inf, y),
    "None in a list": lambda y: [None, *y.tolist()[1:]],
    "None": lambda y: None,
    "all None": lambda y: np.array([None] * len(y)),
    "object texts with None": lambda y: np.where(np.arange(len(y)) == 3, None, np.array(["a", "b"], object)[y]),
    "object texts with NaN": lambda y: np.where(np.arange(len(y)) == 3, np.nan, np.array(["a", "b"], object)[y]),
    "texts and numbers in a list": lambda y: ["a", *y.tolist()[1:]],
    "texts and numbers": lambda y: np.array(["a", *y.tolist()[1:]], object),
    "unequal lists": lambda y: [[1], [1, 2]] * (len(y) // 2),
    "beyond 64 bits": lambda y: [2**70, *y.tolist()[1:]],
    "numbers of both signs that no integer type holds": lambda y: [2**63 + 1, -1] * (len(y) // 2),
    "integers that become one": lambda y: [2**63, 2**63 + 1, 5] * 13 + [5],
    "masked cell": lambda y: [np.ma.masked, *y.tolist()[1:]],
    "masked cell among texts": lambda y: [np.ma.masked, *np.array(["a", "b"])[y[1:]].tolist()],
    "masked": lambda y: np.ma.MaskedArray(y, np.arange(len(y)) == 3),
    "masked texts": lambda y: np.ma.MaskedArray(np.array(["a", "b"])[y], np.arange(len(y)) == 3),
    "complex": lambda y: y + 1j,
    "3 dimensions": lambda y: np.zeros((len(y), 2, 2), int),
    "no dimension": lambda y: 1,
    "±1 indicators": lambda y: np.stack([2 * y - 1, 1 - 2 * y, 2 * y - 1], axis=1),
    "sparse ±1 indicators": lambda y: sparse.csr_array(np.stack([2 * y - 1, 1 - 2 * y, 2 * y - 1], axis=1)),
    "0 and 2 indicators": lambda y: np.stack([2 * y, 2 - 2 * y], axis=1),
    "±1 indicators as floats": lambda y: np.stack([2.0 * y - 1, 1.0 - 2 * y], axis=1),
    "floats in two dimensions": lambda y: np.stack([y + 0.5, y - 0.25], axis=1),
    "texts in two dimensions": lambda y: np.array([["a", "b"]] * len(y)),
    "damaged label sets": lambda y: _put("indices", 3, 2**31 - 1)(np.stack([y, 1 - y, y], axis=1).astype(float)),
    "label sets with long pointers": lambda y: _set("indptr", lambda p: np.append(p, [10**6] * 9))(
        np.stack([y, 1 - y, y], axis=1).astype(float)
    ),
    "masked label sets": lambda y: np.ma.MaskedArray(np.stack([y, 1 - y], axis=1), np.eye(len(y), 2) > 0),
    "records": lambda y: np.zeros(len(y), [("a", int)]),
}  # fmt: skip

BAD_WEIGHTS: dict[str, Callable[[int], Any]] = {
    "NaN": lambda n: np.where(np.arange(n) == 3, np.nan, 1.0),
    "inf": lambda n: np.where(np.arange(n) == 3, np.inf, 1.0),
    "negative": lambda n: np.where(np.arange(n) == 3, -1.0, 1.0),
    "too short": lambda n: np.ones(n - 1),
    "too long": lambda n: np.ones(n + 1),
    "two dimensions": lambda n: np.ones((n, 2)),
    "masked": lambda n: np.ma.MaskedArray(np.ones(n), np.arange(n) == 3),
    "masked cell": lambda n: [np.ma.masked, *[1.0] * (n - 1)],
    "dates": lambda n: np.full(n, np.datetime64("2020-01-01")),
    "texts": lambda n: np.full(n, "a"),
    "None inside": lambda n: [None] * n,
    "complex": lambda n: np.ones(n) + 1j,
    "ragged": lambda n: [[1.0], [1.0, 2.0]] * (n // 2),
    "a dict": lambda n: {"a": 1.0},
}

ODD_WEIGHTS: dict[str, Callable[[int], Any]] = {
    "all zero": np.zeros,
    "huge": lambda n: np.full(n, 1e308),
    "tiny": lambda n: np.full(n, 1e-308),
}


# --- estimators -----------------------------------------------------------------------------------------------------


def estimators() -> dict[str, Callable[[], Any]]:
    """By name, what makes every public estimator, transformer and drop-in, with little to do."""
    import lineal
    from lineal import dropin, features

    online = {"bits": 10, "n_jobs": 1}
    return {
        "LinearClassifier": lambda: lineal.LinearClassifier("logistic", alpha=1e-2, n_jobs=1),
        "LinearClassifier l1": lambda: lineal.LinearClassifier("squared_hinge", "l1", alpha=1e-3, n_jobs=1),
        "LinearClassifierCV": lambda: lineal.LinearClassifierCV("logistic", n_alphas=3, cv=2, n_jobs=1),
        "LeastSquaresClassifier": lambda: lineal.LeastSquaresClassifier(n_jobs=1),
        "LeastSquaresClassifier calibrated": lambda: lineal.LeastSquaresClassifier(
            calibration="polynomial", max_iter=3, n_jobs=1
        ),
        "StagewiseClassifier": lambda: lineal.StagewiseClassifier(
            "fourier:bandwidth=9", block_size=16, n_blocks=2, n_jobs=1, precision="float64"
        ),
        "StagewiseClassifier polynomial": lambda: lineal.StagewiseClassifier("polynomial", block_size=16, n_blocks=2),
        "OnlineClassifier": lambda: lineal.OnlineClassifier(**online),
        "OnlineClassifier adaptive": lambda: lineal.OnlineClassifier(expansion="adaptive", **online),
        "OnlineRegressor": lambda: lineal.OnlineRegressor(**online),
        "LinearSVC": dropin.LinearSVC,
        "LogisticRegression": dropin.LogisticRegression,
        "RidgeClassifier": dropin.RidgeClassifier,
        "SGDClassifier": lambda: dropin.SGDClassifier(random_state=0),
        "SGDClassifier descent": lambda: dropin.SGDClassifier("modified_huber", random_state=0, max_iter=2, tol=None),
        "AdaptivePolynomial": lambda: features.AdaptivePolynomial(bits=10, epochs=2, n_jobs=1, shuffle=False),
        "Chain": lambda: features.Chain(
            features.PrincipalComponents(4), features.RandomFourier(bandwidth=9.0, n_jobs=1), n_features=8
        ),
        "RandomFourier": lambda: features.RandomFourier(bandwidth=9.0, n_features=8, n_jobs=1),
        "RandomFourier hadamard": lambda: features.RandomFourier(variant="hadamard", n_features=8, n_jobs=1),
        "Polynomial": lambda: features.Polynomial(n_features=20),
        "PrincipalComponents": lambda: features.PrincipalComponents(4),
        "RandomSubset": lambda: features.RandomSubset(n_features=4),
        "FrequencyOrdered": lambda: features.FrequencyOrdered(n_features=4),
        "GreedyResidual": lambda: features.GreedyResidual(n_features=4),
        "PatchConvolution": lambda: features.PatchConvolution(
            (3, 2), filters="random", patch=2, pool=1, n_features=4, n_jobs=1
        ),
        "Model": lambda: _ModelOnly(lineal.LinearClassifier("logistic", alpha=1e-2, n_jobs=1)),
        "row-sparse Model": lambda: _ModelOnly(
            lineal.LinearClassifier("logistic", "l1", alpha=5e-2, n_jobs=1), is_row_sparse=True
        ),
        "OnlineModel": lambda: _ModelOnly(lineal.OnlineClassifier(**online)),
        "StagewiseModel": lambda: _ModelOnly(
            lineal.StagewiseClassifier("fourier:bandwidth=9", block_size=16, n_blocks=2, n_jobs=1, precision="float64")
        ),
        "CalibratedModel": lambda: _ModelOnly(
            lineal.LeastSquaresClassifier(calibration="polynomial", max_iter=3, n_jobs=1)
        ),
    }  # fmt: skip


class _ModelOnly:
    """A model that is asked directly, as after `lineal.load`."""

    def __init__(self, estimator: Any, is_row_sparse: bool = False) -> None:
        self.estimator, self.is_row_sparse = estimator, is_row_sparse

    def fit(self, X: Any, y: Any) -> Any:
        from dataclasses import replace

        from lineal.core.row_sparse import RowSparse, live

        model = self.estimator.fit(X, y).model_
        if self.is_row_sparse:
            model = replace(model, weights=RowSparse(*live(model.weights), model.weights.shape))
        return model


ANSWERS = ("predict", "decision_function", "predict_proba", "transform")

#: Where the type of the numbers of X, or their order, changes how a method computes: answers are compared loosely.
LOOSE = 2e-3


class Attempts:
    """Tries out one estimator, and says what was not fine."""

    def __init__(self, name: str, say: Callable[[str, str | None, bool], None], share: int = 1) -> None:
        self.name, self.make, self.say, self.share = name, estimators()[name], say, share
        self.X, self.y = clean()
        self.is_model = isinstance(self.make(), _ModelOnly)
        self.fitted = self.make().fit(self.X, self.y)
        self.is_transformer = hasattr(self.fitted, "transform")

    def run(self) -> None:
        """All attempts."""
        for way in ANSWERS:
            if hasattr(self.fitted, way) and not (
                way == "predict_proba" and self.is_model and not self.fitted.has_probabilities
            ):
                self.answers(way)
        if hasattr(self.fitted, "score"):
            self.scores()
        if self.is_model:
            return
        for way in ("fit", "partial_fit"):
            if hasattr(self.fitted, way):
                self.fits(way)
                for columns in WIDE:
                    self.attempt(f"{way}({columns} columns)", wide(columns), partial(self.wide, way), None, self.y)

    def answers(self, way: str) -> None:
        """Every matrix to a method that answers."""
        answer = getattr(self.fitted, way)
        right = _dense(answer(self.X))
        right_of_bools = _dense(answer((self.X > 0).astype(np.float64)))
        for what, build in SAME.items():
            # Models, which no scikit-learn stands before, take no arrays of objects.
            expected = None if what == "objects" else right_of_bools if "bool" in what else right
            self.attempt(f"{way}({what})", build(self.X), answer, expected)
        for what, build in BAD.items():
            is_fine = self.is_model and what in ("no rows", "no sparse rows")
            self.attempt(f"{way}({what})", build(self.X), answer, None if is_fine else REFUSED)
        for what, build in ODD.items():
            self.attempt(f"{way}({what})", build(self.X), answer, None)

    def scores(self) -> None:
        """Every matrix, label and weight to `score`."""
        score = self.fitted.score
        right = score(self.X, self.y)
        for what, build in SAME.items():
            self.attempt(f"score({what})", build(self.X), score, None if "bool" in what else right, self.y)
        for what, build in BAD.items():
            self.attempt(f"score({what})", build(self.X), score, REFUSED, self.y)
        for what, change in BAD_Y.items():
            is_bad = what in ("masked", "masked cell", "too short", "NaN", "±1 indicators", "damaged label sets")
            self.attempt(f"score(y {what})", self.X, score, REFUSED if is_bad else None, change(self.y))
        for what, make in BAD_WEIGHTS.items():
            expected = None if what == "negative" else REFUSED
            self.attempt(f"score(weights {what})", self.X, score, expected, self.y, make(N))

    def fits(self, way: str) -> None:
        """Every matrix, label, weight and offset to a method that learns."""
        learn = partial(self.learn, way)
        right = learn(self.X, self.y)
        # scikit-learn's descent moves the intercept less where rows are sparse, and so does the drop-in.
        right_if_sparse = learn(csr(self.X), self.y) if "descent" in self.name else right
        for what, build in SAME.items():
            is_other = "bool" in what or "16" in what
            X = build(self.X)
            expected = None if is_other else right_if_sparse if sparse.issparse(X) else right
            self.attempt(f"{way}({what})", X, learn, expected, self.y)
        for what, build in BAD.items():
            self.attempt(f"{way}({what})", build(self.X), learn, REFUSED, self.y)
        for what, build in ODD.items():
            is_bad = what == "more rows" and self.needs_y()
            self.attempt(f"{way}({what})", build(self.X), learn, REFUSED if is_bad else None, self.y)
        if not self.needs_y():
            return
        if self.name == "OnlineRegressor":
            for what in (
                "too short",
                "empty",
                "NaN",
                "inf",
                "None in a list",
                "masked",
                "masked cell",
                "complex",
                "records",
            ):
                self.attempt(f"{way}(y {what})", self.X, learn, REFUSED, BAD_Y[what](self.y))
        else:
            self.labels(way, learn, right)
        if self.name == "GreedyResidual":
            return
        for what, make in BAD_WEIGHTS.items():
            self.attempt(f"{way}(weights {what})", self.X, learn, REFUSED, self.y, sample_weight=make(N))
        for what, make in ODD_WEIGHTS.items():
            self.attempt(f"{way}(weights {what})", self.X, learn, None, self.y, sample_weight=make(N))
        if "LinearClassifier" in self.name:
            for what, make in BAD_WEIGHTS.items():
                expected = None if what == "negative" else REFUSED
                self.attempt(f"{way}(offsets {what})", self.X, learn, expected, self.y, offsets=make(N))

    def wide(self, way: str, X: Any, y: Any) -> np.ndarray:
        """What an estimator of very many columns says of its own rows."""
        fitted = self.learned(way, X, y)
        return _dense((fitted.transform if self.is_transformer else fitted.predict)(X))

    def labels(self, way: str, learn: Callable[..., Any], right: Any) -> None:
        """Every kind of labels to a method that learns; what has learned from good ones is saved and loaded."""
        for what, change in SAME_Y.items():
            self.attempt(f"{way}(y {what})", self.X, learn, right, change(self.y))
            if hasattr(self.fitted, "save"):
                self.attempt(f"{way}(y {what}), save, load", self.X, partial(self.reload, way), None, change(self.y))
        for what, change in BAD_Y.items():
            is_class = what == "one class" and (way == "partial_fit" or self.name == "RidgeClassifier")
            is_number = self.is_transformer and ("float" in what or what in ("one class", "beyond 64 bits"))
            self.attempt(f"{way}(y {what})", self.X, learn, None if is_class or is_number else REFUSED, change(self.y))

    def needs_y(self) -> bool:
        """Whether it learns from labels."""
        return self.name in ("AdaptivePolynomial", "GreedyResidual") or not self.is_transformer

    def learn(self, way: str, X: Any, y: Any, **options: Any) -> np.ndarray:
        """What a new estimator says of the clean rows after it has learned from these."""
        return self.answer(self.learned(way, X, y, **options))

    def learned(self, way: str, X: Any, y: Any, **options: Any) -> Any:
        """A new estimator that has learned from these rows."""
        if way == "partial_fit" and "SGD" in self.name:
            options["classes"] = np.unique(y) if _is_vector(y) else [0, 1]
        return getattr(self.make(), way)(X, y, **options)

    def reload(self, way: str, X: Any, y: Any) -> int:
        """0 where a model has the same classes and predictions after it was saved and loaded."""
        import lineal

        fitted = self.learned(way, X, y)
        path = _folder() / "model"
        fitted.save(path)
        again = lineal.load(path)
        same = again.classes.tolist() == fitted.classes_.tolist()
        if not same or again.predict(X).tolist() != fitted.predict(X).tolist():
            raise AssertionError("the loaded model is another one")
        return 0

    def answer(self, fitted: Any) -> np.ndarray:
        """What a fitted estimator says of the clean rows."""
        way = next(name for name in ("transform", "decision_function", "predict") if hasattr(fitted, name))
        return _dense(getattr(fitted, way)(self.X))

    def attempt(self, what: str, X: Any, use: Callable[..., Any], expected: Any, *others: Any, **options: Any) -> None:
        """One call, `use(X, *others, **options)`."""
        what = f"{self.name}.{what}"
        if crc32(what.encode()) % self.share:
            return
        before = _frozen(X)
        self.say(what, None, False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=_convergence())
            harmless = "column-vector y|feature names|beyond ±|masked element to nan"
            warnings.filterwarnings("ignore", message=f".*({harmless}).*")
            problem = _problem(partial(use, X, *others, **options), expected)
        if problem is None and before is not None and _frozen(X) != before:
            problem = "changed its input"
        self.say(what, problem, True)


REFUSED = object()


@cache
def _convergence() -> Any:
    from sklearn.exceptions import ConvergenceWarning

    return ConvergenceWarning


def _problem(run: Callable[[], Any], expected: Any) -> str | None:
    from lineal.errors import LinealError

    try:
        found = run()
    except LinealError as error:
        return None if expected is REFUSED or expected is None else f"refused: {error}"
    except (TypeError, ValueError) as error:
        if _is_sklearn(error):
            return None if expected is REFUSED or expected is None else f"refused: {error}"
        return f"{type(error).__name__}: {error}"
    except BaseException as error:  # also warnings
        return f"{type(error).__name__}: {error}"
    if expected is REFUSED:
        return f"answered {str(found)[:80]}"
    values = _dense(found)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return "answered NaN"
    if expected is not None:
        right = _dense(expected)
        if values.shape != right.shape:
            return f"answered {values.shape}, expected {right.shape}"
        if right.dtype.kind == "f":
            scale = max(1.0, float(np.abs(right).max(initial=0.0)))
            if np.abs(values - right).max(initial=0.0) > LOOSE * scale:
                return f"is off by {np.abs(values - right).max() / scale:.2g}"
        elif not np.array_equal(values, right):
            return "answered something else"
    return None


def _is_sklearn(error: BaseException) -> bool:
    """Whether one of scikit-learn's checks of input raised it, or ours in its way; a damaged answer otherwise."""
    import traceback

    names = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return "sklearn" in names[-1] or ("sklearn" in " ".join(names[-4:]) and "lineal" not in names[-1])


def _is_vector(y: Any) -> bool:
    """Whether these are labels of one type, more than one of them different."""
    if not isinstance(y, np.ndarray | list) or len({*map(type, y)}) != 1 or isinstance(y[0], list | np.ndarray):
        return False
    found = np.asarray(y)
    return found.dtype != object or isinstance(y[0], str)


def _dense(values: Any) -> np.ndarray:
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def _frozen(given: Any) -> Any:
    """What must not change."""
    if sparse.issparse(given):
        parts = [given.__dict__.get(name) for name in ("data", "indices", "indptr", "offsets", "_dict")]
        return [
            part.tobytes() if isinstance(part, np.ndarray) and part.dtype != object else str(part) for part in parts
        ]
    if isinstance(given, np.ndarray) and given.dtype != object:
        return given.tobytes()
    return None


def main(memory: int, share: int, names: list[str]) -> None:
    """Attempts of these estimators; of every `share` attempts one, always the same."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    def say(what: str, problem: str | None, is_over: bool) -> None:
        print(json.dumps([what, problem, is_over]), flush=True)

    for name in names:
        Attempts(name, say, share).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
