"""Small random rows and files for the common fits: their layout, precision and size matter, not what they say."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: Layouts of rows that estimators accept, and those whose indices can be of 64 bits.
LAYOUTS = ("dense", "dense, by columns", "csr", "csr, 64-bit", "csc")

#: Types of numbers.
PRECISIONS = ("float32", "float64")

#: Number of stored entries per sparse row.
STORED = 20


class Size(NamedTuple):
    """Number of rows and of columns."""

    n: int
    d: int


#: Solvers are chosen by the number of columns, and short rows have kernels of their own.
NARROW, WIDE = Size(240, 12), Size(240, 700)

#: Some kernels are used only where there is enough to do: rows that are dense, and rows that are not.
TALL, LONG = Size(20_000, 70), Size(4_000, 20_000)

#: Fits of float32 rows go on in float64 where they stall; with more columns than rows they do.
SHORT = Size(400, 900)


def rows(layout: str, precision: str, size: Size) -> Any:
    """Random rows of a layout."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    n, d = size
    if layout.startswith("dense"):
        X = rng.standard_normal((n, d)).astype(precision)
        return np.asfortranarray(X) if layout == "dense, by columns" else X
    X = sparse.random_array((n, d), density=min(0.5, STORED / d), rng=rng, format="csr", dtype=precision)
    if layout == "csc":
        return X.tocsc()
    index = np.int64 if layout == "csr, 64-bit" else np.int32
    return sparse.csr_array((X.data, X.indices.astype(index), X.indptr.astype(index)), shape=X.shape)


def documents() -> list[str]:
    """Short texts."""
    return [f"word{i % 7} and text{i % 11}, the {i}th of them: isn't it?" for i in range(NARROW.n)]


def labels(n: int, n_classes: int) -> np.ndarray:
    """Labels in turn."""
    return np.arange(n) % n_classes


def label_sets(n: int) -> np.ndarray:
    """Indicators of two labels."""
    return np.stack([labels(n, 2), labels(n, 3) == 0], axis=1).astype(np.int64)


#: Lines of files, by their names.
LINES: dict[str, Callable[[int], str]] = {
    "rows.svmlight": lambda i: f"{i % 3} {1 + i % 5}:{i + 1} {6 + i % 4}:0.5\n",
    "rows.vw": lambda i: f"{i % 3 + 1} |a w{i % 7} x:{i % 5}.5 |b v{i % 11}\n",
    "binary.vw": lambda i: f"{2 * (i % 2) - 1} |a w{i % 7} x:{i % 5}.5 |b v{i % 11}\n",
    "rows.csv": lambda i: f"{i % 3},{i * 0.5},{i % 7},{'uvw'[i % 3]}\n" if i else "label,x,z,word\n",
    "rows.tsv": lambda i: f"{i % 3}\t{i * 0.5}\t{i % 7}\n" if i else "label\tx\tz\n",
    "rows.jsonl": lambda i: f'{{"label": {i % 3}, "x": {i * 0.5}, "word": "{"uvw"[i % 3]}"}}\n',
}


def file(folder: str, name: str) -> str:
    """Path of a file with these lines, which is written if it is not there."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        with open(path, "w") as stream:
            stream.writelines(LINES[name](i) for i in range(NARROW.n))
    return path
