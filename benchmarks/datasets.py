"""The real data sets that benchmarks use, loaded from the folder given by ``--data``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np


def mnist(folder: Path, part: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Pixels as uint8 (n, 784) and digits."""

    def bytes_of(kind: str, header: int) -> np.ndarray:
        with gzip.open(folder / "mnist" / f"{part}-{kind}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    return bytes_of("images-idx3", 16).reshape(-1, 784), bytes_of("labels-idx1", 8)


def newsgroups(folder: Path, part: str = "train") -> tuple[Any, np.ndarray]:
    """20 newsgroups without header blocks, as tf-idf of words (float64 CSR), and the group's number."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    with gzip.open(folder / "20newsgroups" / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [row["text"].partition("\n\n")[2] for row in rows]
    labels = np.unique([row["label"] for row in rows], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(rows))  # the file is sorted by class
    return TfidfVectorizer(sublinear_tf=True).fit_transform([texts[i] for i in order]), labels[order]
