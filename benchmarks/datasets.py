"""The real data sets that benchmarks use, loaded from the folder given by ``--data``."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

#: Sets of images, and training rows of them in comparisons with programs that would take minutes for all.
IMAGES, IMAGE_ROWS = ("mnist", "fashion_mnist"), 20_000

#: Features and labels for training, and for testing.
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def mnist(folder: Path, part: str = "train", name: str = "mnist") -> tuple[np.ndarray, np.ndarray]:
    """Pixels as uint8 (n, 784) and digits; `part` is train or t10k."""

    def bytes_of(kind: str, header: int) -> np.ndarray:
        with gzip.open(folder / name / f"{part}-{kind}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    return bytes_of("images-idx3", 16).reshape(-1, 784), bytes_of("labels-idx1", 8)


def fashion_mnist(folder: Path, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Pixels as uint8 (n, 784) and kinds of clothes."""
    return mnist(folder, part, "fashion_mnist")


def cifar10_jpeg(folder: Path, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """20 000 of CIFAR-10's training images, or its test images, all after lossy JPEG: uint8 (n, 32·32·3), and kinds."""
    import io

    from PIL import Image

    with np.load(folder / "cifar10_jpeg" / f"{part}.npz") as file:
        jpeg, ends, y = file["jpeg"], file["offsets"].tolist(), file["y"]
    X = np.empty((len(y), 32 * 32 * 3), np.uint8)
    for i, (start, stop) in enumerate(pairwise(ends)):
        X[i] = np.asarray(Image.open(io.BytesIO(jpeg[start:stop].tobytes())).convert("RGB")).reshape(-1)
    return X, y


def newsgroups(folder: Path, part: str = "train", idf: bool = True) -> tuple[Any, np.ndarray]:
    """20 newsgroups without header blocks, as tf-idf of the training words (float64 CSR), and the group's number."""
    rows = {which: _json_lines(folder / "20newsgroups" / f"{which}.jsonl.gz") for which in {"train", part}}
    texts = {which: [row["text"].partition("\n\n")[2] for row in rows[which]] for which in rows}
    labels = np.unique([row["label"] for row in rows[part]], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(labels))  # the file is sorted by class
    return _tf_idf(texts["train"], [texts[part][i] for i in order], idf), labels[order]


def reuters(folder: Path, part: str = "train", idf: bool = True, n_topics: int | None = None) -> tuple[Any, np.ndarray]:
    """Reuters-21578 documents with exactly one topic, of the 52 topics in both parts: tf-idf (float64 CSR), topic.

    With `n_topics` only those of the topics that have the most training documents.
    """
    rows = {name: _json_lines(folder / "reuters21578" / f"{name}.jsonl.gz") for name in ("train", "test")}
    single = {name: [row for row in rows[name] if len(row["topics"]) == 1] for name in rows}
    topics = sorted(set.intersection(*({row["topics"][0] for row in single[name]} for name in single)))
    counts = Counter(row["topics"][0] for row in single["train"])
    topics = sorted(sorted(topics, key=lambda topic: -counts[topic])[:n_topics])
    kept = {name: [row for row in single[name] if row["topics"][0] in topics] for name in single}
    texts = {name: [f"{row['title']} {row['text']}" for row in kept[name]] for name in kept}
    labels = np.searchsorted(topics, [row["topics"][0] for row in kept[part]])
    return _tf_idf(texts["train"], texts[part], idf), labels


def intents(folder: Path, name: str, part: str = "train") -> tuple[Any, np.ndarray]:
    """clinc150 or banking77: short requests as tf-idf of words (float64 CSR), shuffled, and the intent's number."""
    rows = {which: _json_lines(folder / name / f"{which}.jsonl.gz") for which in {"train", part}}
    order = np.random.default_rng(0).permutation(len(rows[part]))  # the files are sorted by class
    labels = np.unique([row["label"] for row in rows[part]], return_inverse=True)[1]
    X = _tf_idf([row["text"] for row in rows["train"]], [rows[part][i]["text"] for i in order])
    return X, labels[order]


def toxicity(folder: Path, part: str = "train") -> tuple[Any, np.ndarray]:
    """Wikipedia comments as tf-idf of words (float64 CSR), and whether most annotators found them toxic."""
    rows = {which: _json_lines(folder / "wiki_toxicity" / f"{which}.jsonl.gz") for which in {"train", part}}
    X = _tf_idf([row["text"] for row in rows["train"]], [row["text"] for row in rows[part]])
    return X, np.array([row["label"] for row in rows[part]])


def svmlight(folder: Path, name: str, part: str = "train") -> tuple[Any, np.ndarray]:
    """a9a or w8a as float64 CSR, and labels ±1."""
    from lineal import read

    n_features = {"a9a": 123, "w8a": 300}[name]
    rows = read(next((folder / name).glob(f"*{part}*.svm.gz"), folder / name / f"{name}.svm.gz"))
    X = rows.X.astype(np.float64)
    X.resize((X.shape[0], n_features))
    return X, np.asarray(rows.y)


def kddcup(folder: Path, rows: int = 100_000, is_binary: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """KDD Cup 99: standardised numbers and one-hot categories as dense float64, attack types with ≥ 20 rows.

    With `is_binary` the labels are 0 for normal connections and 1 for attacks, of the same rows.

    Of the 494,000 rows of the 10 % file, `rows` drawn at random: of all, one softmax fit of scikit-learn takes minutes.
    """
    import pandas as pd

    table = pd.read_csv(next((folder / "kddcup99").glob("*train*.gz")), header=None)
    labels, counts = np.unique(table[41], return_inverse=True), table[41].value_counts()
    kept = table[41].map(counts).to_numpy() >= 20
    numbers = table.drop(columns=[1, 2, 3, 41]).to_numpy(np.float64)
    spread = numbers.std(axis=0)
    numbers = (numbers - numbers.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    X = np.hstack([numbers, pd.get_dummies(table[[1, 2, 3]].astype(str)).to_numpy(np.float64)])
    order = np.random.default_rng(0).permutation(np.flatnonzero(kept))[:rows]
    if is_binary:
        return X[order], (table[41] != "normal.").to_numpy()[order].astype(np.int64)
    return X[order], np.unique(labels[1][order], return_inverse=True)[1]


def dense_table(folder: Path, name: str, most: int | None = None) -> Split:
    """A dense table as float32, standardised by its training rows, or pixels between 0 and 1; at most `most` rows.

    A quarter of the rows is for testing if no split is given. Images have `IMAGE_ROWS` rows for training.
    """
    if name in IMAGES:
        X, y = mnist(folder, "train", name)
        X_test, y_test = mnist(folder, "t10k", name)
        rows = slice(0, most or IMAGE_ROWS)
        return X[rows] / np.float32(255), y[rows], X_test[:most] / np.float32(255), y_test[:most]
    (path,) = (folder / name).glob("*.npz")
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    if "X_train" in arrays:
        X, y, X_test, y_test = (arrays[key] for key in ("X_train", "y_train", "X_test", "y_test"))
        order = np.random.default_rng(0).permutation(len(X))[:most]
        return _standardised(X[order], y[order], X_test[:most], y_test[:most])
    order = np.random.default_rng(0).permutation(len(arrays["X"]))
    train, test = (part[:most] for part in np.split(order, [len(order) * 3 // 4]))
    return _standardised(*(arrays[key][rows] for rows in (train, test) for key in ("X", "y")))


def letters(most: int | None = None) -> Split:
    """A generated table like that of letters: 16 whole numbers from 0 to 15, 26 classes of three shapes each."""
    rng = np.random.default_rng(7)
    shapes = np.clip(7.5 + 2.5 * rng.standard_normal((26, 1, 16)) + 1.5 * rng.standard_normal((26, 3, 16)), 0, 15)
    y = rng.integers(0, 26, 20_000)
    own = shapes[y, rng.integers(0, 3, len(y))]
    X = np.clip(np.rint(own + 1.6 * rng.standard_normal(own.shape)), 0, 15)
    return _standardised(X[:16_000][:most], y[:16_000][:most], X[16_000:][:most], y[16_000:][:most])


def _standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Split:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(X)
    return scaler.transform(X).astype(np.float32), y, scaler.transform(X_test).astype(np.float32), y_test


def _json_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _tf_idf(train: list[str], texts: list[str], idf: bool = True) -> Any:
    """(1 + log tf)·idf, or without idf, in rows of length one."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, use_idf=idf).fit(train)
    return vectorizer.transform(texts)
