"""Figure 4 of the paper: how much of the sum of the 1000 largest singular values the leading ones have, and σ₂/σ₁₀₀₀.

σ₂/σ₁₀₀₀ is the paper's stand-in for the condition number (the first value is that of the mean). Singular values are
square roots of the eigenvalues of the smaller one of XX' and X'X, in float64; below 1e-8 of the largest they are noise.
Documents are logarithmic term frequencies in rows of length one, images 3000 Fourier features of their components, and
of the pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import Plan, Table

TITLE = "Fig. 4: spectra. Share of the sum of the leading singular values, and σ₂ over the last of them"
TOP, QUICK_TOP = 1000, 200
MARKS = (1, 2, 10, 50, 100, 200)

#: σ₂/σ₁₀₀₀ in the paper (RCV1 in place of reuters).
PAPER = {
    "MNIST, 3000 features": 72_000,
    "MNIST, 3000 features of pixels": 72_000,
    "20newsgroups": 19.8,
    "reuters-4": 14,
}


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the plot all shares."""
    top, count = (QUICK_TOP, 600) if plan.is_quick else (TOP, 3000)
    found: dict[str, Any] = {}
    for name in plan.selected("MNIST, 3000 features", "MNIST, 3000 features of pixels", "20newsgroups", "reuters-4"):
        if name.startswith("MNIST"):
            maker = ours.generator("MNIST", on_pixels=name.endswith("pixels"))
            X = ours.with_features(plan.load("MNIST"), count, maker=maker).X
        else:
            X = plan.load(name, 2000).X
        values = singular_values(X, top)
        shares = np.cumsum(values) / values.sum()
        found[name] = {"ratio": float(values[1] / values[-1]), "shares": shares.tolist(), "shape": X.shape}
        print(f"{name}: σ₂/σ_{len(values)} = {found[name]['ratio']:.3g}", flush=True)
    columns = ("data", "shape", *(f"top {mark}" for mark in MARKS), f"σ₂/σ_{top}", "the paper")
    table = [
        [name, "×".join(map(str, one["shape"])), *(f"{one['shares'][mark - 1]:.1%}" for mark in MARKS),
         f"{one['ratio']:.4g}", None if plan.is_quick else PAPER[name]]
        for name, one in found.items()
    ]  # fmt: skip
    return [Table("spectra", TITLE, columns, table)], found


def singular_values(X: Any, top: int) -> np.ndarray:
    """The largest ones, descending."""
    X = X.astype(np.float64)
    gram = X @ X.T if X.shape[0] < X.shape[1] else X.T @ X
    gram = gram.toarray() if sparse.issparse(gram) else gram
    d = len(gram)
    found = linalg.eigh(gram, eigvals_only=True, subset_by_index=(max(0, d - top), d - 1), overwrite_a=True)
    return np.sqrt(np.maximum(found[::-1], 1e-16 * found[-1]))
