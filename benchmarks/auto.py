"""`solver="auto"` against every solver that could have been named, on kinds of data that favour different ones.

    python -m benchmarks.auto [--data DIR] [--quick] [--match TEXT] [--limit SECONDS] [--json PATH]

Raw word counts, binary words and tf-idf (hashed to 2^20 and 2^22 columns, or one column per word), and tables as they
come, standardised and scaled to [0, 1]; several losses, penalties and strengths. All fits of a problem have the same
tolerance. A solver that takes longer than `GIVE_UP` times the best one so far is stopped: it cannot matter. The ratio
is the time of `auto` over that of the fastest solver, `auto` itself included.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import datasets
from benchmarks.common import RESULTS, print_table, write_json
from lineal import LinearClassifier

COLUMNS = ("problem", "rows", "columns", "classes", "best", "best s", "auto s", "auto took", "ratio")

#: Solvers that a user could name instead, for a smooth loss, a loss with kinks, and penalties that select features.
SMOOTH, KINKED, SPARSE = ("dual_cd", "newton", "lbfgs"), ("dual_cd", "multipliers"), ("block_cd", "sparsa", "fista")

#: A solver is stopped after this many times the seconds of the best one so far, but not before `LEAST` seconds.
GIVE_UP, LEAST = 1.5, 0.3

#: Fits that take fewer seconds than this are repeated, and the least time counts.
SHORT, REPEATS = 1.0, 3


@dataclass(frozen=True)
class Problem:
    """One row of the table: a data set in some form, and an objective; `c` is 1/(alpha·n)."""

    data: str
    loss: str = "squared_hinge"
    c: float = 1.0
    penalty: str = "l2"
    alpha: float | None = None
    tol: float = 1e-3
    dtype: str = "float32"

    def __str__(self) -> str:
        strength = f"C={self.c:g}" if self.alpha is None else f"alpha={self.alpha:g}"
        rest = "" if self.dtype == "float32" else f" {self.dtype}"
        return f"{self.data}: {self.loss} {self.penalty} {strength} {self.tol:g}{rest}"

    @property
    def candidates(self) -> tuple[str, ...]:
        """Solvers that `auto` could take."""
        if self.penalty != "l2":
            return SPARSE if self.loss != "hinge" else ("multipliers",)
        if self.loss in ("hinge", "crammer_singer"):
            return KINKED
        return SMOOTH

    def model(self, n: int, **options: Any) -> LinearClassifier:
        """The classifier to fit."""
        alpha = 1.0 / (self.c * n) if self.alpha is None else self.alpha
        return LinearClassifier(self.loss, self.penalty, alpha=alpha, tol=self.tol, **options)


def problems(is_quick: bool) -> Iterator[Problem]:
    """All problems, or a few of each kind."""
    texts = ["toxicity/counts22", "newsgroups/counts22", "amazon/counts20", "ohsumed/tfidf", "clinc150/tfidf"]
    if not is_quick:
        texts += [
            "toxicity/binary20", "toxicity/tfidf", "toxicity/counts", "newsgroups/tfidf", "newsgroups/counts",
            "amazon/tfidf", "ohsumed/counts20", "clinc150/counts20",
        ]  # fmt: skip
    strengths = (1.0,) if is_quick else (0.1, 1.0, 100.0)
    for data in texts:
        for c in strengths:
            yield Problem(data, c=c)
            yield Problem(data, "logistic", c)
        yield Problem(data, alpha=1e-4)
        yield Problem(data, "softmax")
        yield Problem(data, "hinge")
    tables = ["adult/raw", "adult/scaled", "magic/raw", "magic/scaled", "a9a", "w8a", "kddcup/scaled", "shuttle/raw"]
    if not is_quick:
        tables += ["kddcup/raw", "shuttle/scaled", "adult/unit", "mnist/unit", "beans/raw", "gas/raw", "spam/raw"]
    for data in tables:
        for c in strengths:
            yield Problem(data, c=c)
            yield Problem(data, "logistic", c)
        yield Problem(data, alpha=1e-4)
        if not data.startswith(("adult", "magic", "a9a", "w8a", "spam")):
            yield Problem(data, "softmax")
        if not data.startswith(("kddcup", "mnist")):
            yield Problem(data, "hinge", 0.1)
    for data in ("newsgroups/tfidf", "toxicity/counts22", "adult/scaled", "a9a"):
        for alpha in (1e-3,) if is_quick else (1e-2, 1e-3, 1e-4):
            yield Problem(data, "squared_hinge", penalty="l1", alpha=alpha)
            if not is_quick:
                yield Problem(data, "logistic", penalty="l1", alpha=alpha)
    for data in ("newsgroups/tfidf", "adult/scaled", "toxicity/counts22"):
        yield Problem(data, dtype="float64")
        yield Problem(data, "logistic", tol=1e-6, dtype="float64")


# --- data


def load(folder: Path, name: str) -> tuple[Any, np.ndarray]:
    """Rows (float64) and labels of a data set in some form."""
    kind, _, form = name.partition("/")
    if kind in TEXTS:
        texts, labels = TEXTS[kind](folder)
        return words(texts, form), labels
    X, y = TABLES[kind](folder)
    if form == "raw" or not form:
        return X, y
    if form == "unit":
        low, high = X.min(axis=0), X.max(axis=0)
        return (X - low) / np.where(high > low, high - low, 1.0), y
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), y


def words(texts: list[str], form: str) -> Any:
    """Words of texts: "tfidf", "counts" with a column per word, or "counts" or "binary" with the bits of a hash."""
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

    if form == "tfidf":
        return TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    if form == "counts":
        return CountVectorizer(dtype=np.float64).fit_transform(texts)
    bits, is_binary = int(form[-2:]), form.startswith("binary")
    hashed = HashingVectorizer(n_features=1 << bits, norm=None, alternate_sign=False, binary=is_binary)
    return hashed.transform(texts)


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _shuffled(texts: list[str], labels: Any) -> tuple[list[str], np.ndarray]:
    """Several files are sorted by class."""
    order = np.random.default_rng(0).permutation(len(texts))
    numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
    return [texts[i] for i in order], numbers[order]


@cache
def _toxicity(folder: Path) -> tuple[list[str], np.ndarray]:
    rows = _lines(folder / "wiki_toxicity" / "train.jsonl.gz")[:25_000]
    return _shuffled([row["text"] for row in rows], [row["label"] for row in rows])


@cache
def _newsgroups(folder: Path) -> tuple[list[str], np.ndarray]:
    rows = _lines(folder / "20newsgroups" / "train.jsonl.gz")
    return _shuffled([row["text"].partition("\n\n")[2] for row in rows], [row["label"] for row in rows])


@cache
def _amazon(folder: Path) -> tuple[list[str], np.ndarray]:
    rows = _lines(folder / "amazon_multidomain" / "reviews.jsonl.gz")
    return _shuffled([f"{row['title']} {row['text']}" for row in rows], [row["label"] for row in rows])


@cache
def _ohsumed(folder: Path) -> tuple[list[str], np.ndarray]:
    rows = _lines(folder / "ohsumed" / "train.jsonl.gz")
    return _shuffled([row["text"] for row in rows], [row["label"] for row in rows])


@cache
def _clinc(folder: Path) -> tuple[list[str], np.ndarray]:
    rows = _lines(folder / "clinc150" / "train.jsonl.gz")
    return _shuffled([row["text"] for row in rows], [row["label"] for row in rows])


@cache
def _adult(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_csv(next((folder / "adult").glob("train*")))
    X = pd.get_dummies(table.iloc[:, :-1]).to_numpy(np.float64)
    return X, np.unique(table.iloc[:, -1], return_inverse=True)[1]


def _npz(folder: Path, name: str, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    with np.load(next((folder / name).glob("*.npz")), allow_pickle=False) as file:
        names = file.files
        X, y = (file["X"], file["y"]) if "X" in names else (file["X_train"], file["y_train"])
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    return X[order].astype(np.float64), np.unique(y, return_inverse=True)[1][order]


@cache
def _kddcup(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    table = pd.read_csv(next((folder / "kddcup99").glob("*train*.gz")), header=None).sample(100_000, random_state=0)
    X = np.hstack([
        table.drop(columns=[1, 2, 3, 41]).to_numpy(np.float64),
        pd.get_dummies(table[[1, 2, 3]].astype(str)).to_numpy(np.float64),
    ])  # fmt: skip
    return X, np.unique(table[41], return_inverse=True)[1]


def _mnist(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.mnist(folder)
    return X[:20_000].astype(np.float64), y[:20_000]


TEXTS: dict[str, Callable[[Path], tuple[list[str], np.ndarray]]] = {
    "toxicity": _toxicity, "newsgroups": _newsgroups, "amazon": _amazon, "ohsumed": _ohsumed, "clinc150": _clinc,
}  # fmt: skip

TABLES: dict[str, Callable[[Path], tuple[Any, np.ndarray]]] = {
    "adult": _adult,
    "kddcup": _kddcup,
    "mnist": _mnist,
    "magic": lambda folder: _npz(folder, "magic04"),
    "shuttle": lambda folder: _npz(folder, "shuttle"),
    "beans": lambda folder: _npz(folder, "dry_bean"),
    "gas": lambda folder: _npz(folder, "gas_drift_partial"),
    "spam": lambda folder: _npz(folder, "spambase"),
    "a9a": lambda folder: datasets.svmlight(folder, "a9a"),
    "w8a": lambda folder: datasets.svmlight(folder, "w8a"),
}


# --- measurements


def measured(problem: Problem, solver: str, X: Any, y: np.ndarray, limit: float) -> dict[str, Any]:
    """Least seconds of a fit, how it ended, and which solver it was."""
    best: dict[str, Any] = {}
    for _ in range(REPEATS):
        model = problem.model(X.shape[0], solver=solver, max_time=limit)
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        if not best or seconds < best["seconds"]:
            best = {
                "solver": solver, "seconds": seconds, "status": model.status_, "gap": model.certificate_.value,
                "iterations": model.n_iter_, "took": took(model),
            }  # fmt: skip
        if seconds > SHORT:
            break
    return best


def took(model: LinearClassifier) -> str:
    """The solvers that `auto` took, one after the other."""
    return " ".join(dict.fromkeys(row["solver"] for row in model.history_))


def warm_up(problem: Problem, X: Any, y: np.ndarray) -> None:
    """Load or compile what the fits need."""
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:1000])
    few = np.unique(y[rows], return_inverse=True)[1]
    for solver in ("auto", *problem.candidates):
        problem.model(len(rows), solver=solver, max_iter=3).fit(X[rows], few)
        problem.model(len(y), solver=solver, max_time=0.01).fit(X, y)


def compare(problem: Problem, X: Any, y: np.ndarray, limit: float) -> dict[str, Any]:
    """`auto` and all candidates."""
    warm_up(problem, X, y)
    found = [measured(problem, "auto", X, y, limit)]
    for solver in problem.candidates:
        done = [one["seconds"] for one in found if one["status"] == "converged"]
        found.append(measured(problem, solver, X, y, max(LEAST, min([limit, *(GIVE_UP * one for one in done)]))))
    ended = [one for one in found if one["status"] == "converged"] or found
    best = min(ended, key=lambda one: one["seconds"])
    auto = found[0]
    return {
        "problem": str(problem), "n": X.shape[0], "d": X.shape[1], "k": len(np.unique(y)), "fits": found,
        "best": best["solver"] if best is not auto else "auto", "best_seconds": best["seconds"],
        "auto_seconds": auto["seconds"], "took": auto["took"], "status": auto["status"],
        "ratio": auto["seconds"] / best["seconds"],
    }  # fmt: skip


def row_of(found: dict[str, Any]) -> list[Any]:
    """A row of the table."""
    took = found["took"] if found["status"] == "converged" else f"{found['took']} ({found['status']})"
    return [
        found["problem"], found["n"], found["d"], found["k"], found["best"], found["best_seconds"],
        found["auto_seconds"], took, found["ratio"],
    ]  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="a few problems of each kind")
    parser.add_argument("--match", default="", help="only problems whose name has this text")
    parser.add_argument("--limit", type=float, default=120.0, help="largest number of seconds per fit")
    parser.add_argument("--json", type=Path, default=RESULTS / "auto.json", help="result file")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # some fits are stopped on purpose
    chosen = [problem for problem in problems(arguments.quick) if arguments.match in str(problem)]
    results: list[dict[str, Any]] = []
    for data in dict.fromkeys(problem.data for problem in chosen):
        rows, y = load(arguments.data, data)
        for problem in (one for one in chosen if one.data == data):
            X = sparse.csr_matrix(rows, dtype=problem.dtype) if sparse.issparse(rows) else rows.astype(problem.dtype)
            results.append(compare(problem, X, y, arguments.limit))
            print(
                " | ".join(str(round(cell, 3) if isinstance(cell, float) else cell) for cell in row_of(results[-1])),
                flush=True,
            )
    results.sort(key=lambda found: -found["ratio"])
    print_table("auto against the fastest solver", COLUMNS, map(row_of, results))
    write_json(arguments.json, {"columns": COLUMNS, "results": results})
    bad = sum(found["ratio"] > 1.5 for found in results)
    print(f"{len(results)} problems; auto took more than 1.5 times as long as the fastest solver in {bad} of them")


if __name__ == "__main__":
    main()
