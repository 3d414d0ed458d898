"""The data sets, fixed beforehand, and how their rows reach an online learner.

Rows are drawn at random with a fixed seed (many files are sorted), at most `MAX_ROWS` of a set, fewer where rows are
long and classes many (`MAX_PRODUCTS`); one in five is for the test. Numbers are as they are; categories are 0 or 1;
texts are counts of their first `MAX_WORDS` words, hashed to 2^18 columns (long texts would have 10^6 triples and more).
Images are averaged to few pixels for the same reason. Sets of many labels, images and long texts ask one question of
two answers; the others have all their classes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks import datasets
from lineal.online.state import Rows

MAX_ROWS, QUICK_ROWS, MAX_WORDS = 40_000, 1500, 50
TEXT_BITS = 18
TEST_SHARE = 0.2

#: Rows are cut to this many over (mean features)² · classes: adaptive expansion takes about so many products.
MAX_PRODUCTS = 2e8

#: Sets whose labels are numbers; of the others they are classes.
REGRESSION = frozenset({"hours", "toxicity votes"})

_WORD = r"(?u)\b\w\w+\b"


class Problem(NamedTuple):
    """Rows in CSR (float32) and labels: numbers of classes from 0 on, or numbers."""

    name: str
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    is_regression: bool

    @property
    def k(self) -> int:
        """Scores an example."""
        classes = 1 if self.is_regression else int(self.y.max()) + 1
        return 1 if classes <= 2 else classes

    @property
    def signs(self) -> np.ndarray:
        """Labels of one score: −1 and 1, or numbers."""
        return self.y.astype(np.float64) if self.is_regression else 2.0 * self.y - 1.0

    def error(self, said: np.ndarray) -> float:
        """Of scores of the test rows: per cent of wrong classes, or the mean square."""
        if self.is_regression:
            return float(np.mean((said - self.y_test) ** 2))
        return 100.0 * float(np.mean(said != self.y_test))

    @property
    def nonzeros(self) -> float:
        """Mean features an example."""
        return self.X.nnz / self.X.shape[0]

    def monomials(self, degree: int) -> tuple[int, float]:
        """Monomials a row, at most and on average, up to a degree (features of value 1 counted as if of any)."""
        lengths = np.diff(self.X.indptr).astype(np.float64)
        counts = lengths.copy()
        term = lengths.copy()
        for d in range(2, degree + 1):
            term *= (lengths + d - 1) / d
            counts += term
        return int(counts.max()), float(counts.mean())

    def training_rows(self) -> tuple[Rows, np.ndarray | None, np.ndarray | None]:
        """As a learner takes them, with label columns where there are several scores."""
        rows = rows_of(self.X, self.signs if self.k == 1 else np.zeros(len(self.y)))
        if self.k == 1:
            return rows, None, None
        return rows, self.y.astype(np.int32), np.arange(len(self.y) + 1, dtype=np.int64)

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Classes, or numbers, of (n, k) scores."""
        if self.is_regression:
            return scores[:, 0]
        return (scores[:, 0] > 0.0).astype(np.int64) if self.k == 1 else scores.argmax(axis=1)


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    data: Path
    is_quick: bool = False
    match: str = ""
    max_rows: int = MAX_ROWS
    seed: int = 0
    kept: Path | None = None

    def names(self) -> list[str]:
        """The sets, in the order of the list."""
        few = ("phoneme", "segment", "spambase", "banking77")
        return [name for name in LOADERS if self.match in name and (not self.is_quick or name in few)]

    def load(self, name: str) -> Problem:
        """A random split, the same for everybody."""
        X, y = LOADERS[name](self.data)
        X = sparse.csr_matrix(X, dtype=np.float32)
        X.eliminate_zeros()
        is_regression = name in REGRESSION
        y = np.asarray(y) if is_regression else np.unique(y, return_inverse=True)[1]
        classes = 1 if is_regression or y.max() < 2 else int(y.max()) + 1
        room = int(MAX_PRODUCTS / ((X.nnz / len(y)) ** 2 * classes))
        most = min(room, QUICK_ROWS if self.is_quick else self.max_rows)
        order = np.random.default_rng(self.seed).permutation(len(y))[:most]
        X, y = X[order], y[order]
        held = round(TEST_SHARE * len(y))
        return Problem(name, X[held:], y[held:], X[:held], y[:held], is_regression)


def rows_of(X: Any, labels: np.ndarray) -> Rows:
    """CSR rows for kernels."""
    return Rows(
        X.indices.astype(np.int32), X.data.astype(np.float32), X.indptr.astype(np.int64), np.zeros(0, np.uint8),
        np.asarray(labels, np.float64), np.ones(X.shape[0]), 0,
    )  # fmt: skip


# --- loaders: a folder -> rows and labels -----------------------------------------------------------------------------


def _table(path: str) -> Callable[[Path], tuple[Any, np.ndarray]]:
    """Arrays X and y, or those of a training and a test part put together."""

    def load(folder: Path) -> tuple[Any, np.ndarray]:
        with np.load(folder / path) as file:
            if "X" in file.files:
                return file["X"], file["y"]
            return np.vstack([file["X_train"], file["X_test"]]), np.concatenate([file["y_train"], file["y_test"]])

    return load


def _categories(path: str, label: Any, **options: Any) -> Callable[[Path], tuple[Any, np.ndarray]]:
    """A table of text: numbers stay, categories become columns of 0 and 1."""

    def load(folder: Path) -> tuple[Any, np.ndarray]:
        import pandas as pd

        table = pd.concat([pd.read_csv(part, **options) for part in sorted(folder.glob(path))], ignore_index=True)
        y = table.pop(label)
        return _one_hot(table), y.to_numpy()

    return load


def _one_hot(table: Any) -> Any:
    import pandas as pd

    blocks = []
    for name in table.columns:
        if pd.api.types.is_numeric_dtype(table[name]):
            blocks.append(sparse.csr_matrix(table[[name]].to_numpy(np.float64)))
        else:
            codes = pd.factorize(table[name])[0]
            blocks.append(sparse.csr_matrix((np.ones(len(codes)), (np.arange(len(codes)), codes))))
    return sparse.hstack(blocks, format="csr")


def _hours(folder: Path) -> tuple[Any, np.ndarray]:
    """Working hours of the people of `adult`, in tens."""
    X, y = _categories("adult/*.csv.gz", "hours-per-week")(folder)
    return X, y / 10.0


def _attacks(folder: Path) -> tuple[Any, np.ndarray]:
    """kddcup99: kinds of traffic with at least 100 rows."""
    X, y = _categories("kddcup99/train*.gz", 41, header=None)(folder)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(counts[codes] >= 100)
    return X[kept], codes[kept]


def _svmlight(name: str) -> Callable[[Path], tuple[Any, np.ndarray]]:
    def load(folder: Path) -> tuple[Any, np.ndarray]:
        parts = [datasets.svmlight(folder, name, part) for part in (("train", "test") if name == "a9a" else ("train",))]
        return sparse.vstack([X for X, _ in parts], format="csr"), np.concatenate([y for _, y in parts])

    return load


def _label_set(name: str) -> Callable[[Path], tuple[Any, np.ndarray]]:
    """Of a multi-label set the label that is nearest to half of the rows, or not."""

    def load(folder: Path) -> tuple[Any, np.ndarray]:
        with np.load(next((folder / f"ml_{name}").glob("*.npz"))) as file:

            def part(kind: str) -> Any:
                return sparse.vstack([
                    sparse.csr_matrix(
                        tuple(file[f"{kind}_{which}_{key}"] for key in ("data", "indices", "indptr")),
                        shape=tuple(file[f"{kind}_{which}_shape"]),
                    )
                    for which in ("train", "test")
                ], format="csr")  # fmt: skip

            X, Y = part("X"), part("Y")
        shares = np.asarray((Y > 0).mean(axis=0)).ravel()
        column = int(np.argmin(np.abs(shares - 0.5)))
        return X, np.asarray((Y[:, [column]] > 0).todense()).ravel().astype(np.int64)

    return load


def _texts(path: str, text: Callable[[Any], str], label: Callable[[Any], Any]) -> Callable[[Path], Any]:
    """Counts of the first words of texts; texts without a label are left out."""

    def load(folder: Path) -> tuple[Any, np.ndarray]:
        import re

        from sklearn.feature_extraction.text import HashingVectorizer

        rows = [row for part in sorted(folder.glob(path)) for row in datasets._json_lines(part)]
        rows = [row for row in rows if label(row) is not None]
        rows = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))[:MAX_ROWS]]
        word = re.compile(_WORD)
        X = HashingVectorizer(
            analyzer=lambda row: word.findall(text(row).lower())[:MAX_WORDS], n_features=1 << TEXT_BITS, norm=None,
            alternate_sign=False,
        ).transform(rows)  # fmt: skip
        return X, np.array([label(row) for row in rows])

    return load


def _pixels(name: str, size: int, classes: tuple[int, ...]) -> Callable[[Path], tuple[Any, np.ndarray]]:
    """Images as means of size × size pixels; whether they show one of these classes."""

    def load(folder: Path) -> tuple[Any, np.ndarray]:
        parts = (
            [datasets.cifar10_jpeg(folder, part) for part in ("train", "test")]
            if name == "cifar10"
            else [datasets.mnist(folder, part, name) for part in ("train", "t10k")]
        )
        side, depth = (32, 3) if name == "cifar10" else (28, 1)
        order = np.random.default_rng(1).permutation(sum(len(y) for _, y in parts))[: MAX_ROWS // 4]
        X, y = np.vstack([X for X, _ in parts])[order], np.concatenate([y for _, y in parts])[order]
        means = X.reshape(-1, side // size, size, side // size, size, depth).mean(axis=(2, 4)) / 255.0
        return means.reshape(len(y), -1).round(3), np.isin(y, classes).astype(np.int64)

    return load


def _plain(row: Any) -> str:
    return str(row["text"])


def _body(row: Any) -> str:
    """Without the head of a message, which names the group."""
    return str(row["text"]).partition("\n\n")[2]


def _topic(row: Any) -> Any:
    return int("acq" in row["topics"]) if len(row["topics"]) == 1 else None


LOADERS: dict[str, Callable[[Path], tuple[Any, np.ndarray]]] = {
    "a9a": _svmlight("a9a"),
    "w8a": _svmlight("w8a"),
    "adult": _categories("adult/*.csv.gz", "income"),
    "hours": _hours,
    "bank": _categories("bank_additional/*.csv.gz", "y", sep=";"),
    "mushroom": _categories("mushroom/*.csv.gz", 0, header=None),
    "kddcup99": _attacks,
    "skin": _table("skin/skin.npz"),
    "shuttle": _table("shuttle/shuttle.npz"),
    "elec": _table("elec/elec.npz"),
    "weather": _table("weather/weather.npz"),
    "gas drift": _table("gas_drift_partial/gas_drift_8of10.npz"),
    "magic04": _table("magic04/magic04.npz"),
    "htru2": _table("htru2/htru2.npz"),
    "dry bean": _table("dry_bean/dry_bean.npz"),
    "pendigits": _table("pendigits/pendigits.npz"),
    "optdigits": _table("optdigits/optdigits.npz"),
    "satimage": _table("satimage/satimage.npz"),
    "texture": _table("texture/texture.npz"),
    "phoneme": _table("phoneme/phoneme.npz"),
    "spambase": _table("spambase/spambase.npz"),
    "segment": _table("segment/segment.npz"),
    "bibtex": _label_set("bibtex"),
    "delicious": _label_set("delicious"),
    "tmc2007": _label_set("tmc2007_500"),
    "enron": _label_set("enron"),
    "yeast": _label_set("yeast"),
    "scene": _label_set("scene"),
    "emotions": _label_set("emotions"),
    "20newsgroups": _texts("20newsgroups/*.gz", _body, lambda row: int(row["label"].startswith(("comp", "sci")))),
    "reuters": _texts("reuters21578/*.gz", lambda row: f"{row['title']} {row['text']}", _topic),
    "ohsumed": _texts("ohsumed/*.gz", _plain, lambda row: int(row["label"] in ("C04", "C10", "C14", "C23"))),
    "amazon": _texts("amazon_multidomain/*.gz", lambda row: f"{row['title']} {row['text']}", lambda row: row["label"]),
    "toxicity": _texts("wiki_toxicity/*.gz", _plain, lambda row: row["label"]),
    "toxicity votes": _texts("wiki_toxicity/*.gz", _plain, lambda row: row["tox"]),
    "clinc150": _texts("clinc150/[tv]*.gz", _plain, lambda row: row["label"]),
    "banking77": _texts("banking77/*.gz", _plain, lambda row: row["label"]),
    "mnist": _pixels("mnist", 2, (0, 2, 4, 6, 8)),
    "fashion": _pixels("fashion_mnist", 4, (0, 2, 4, 6)),
    "cifar10": _pixels("cifar10", 8, (0, 1, 8, 9)),
}
