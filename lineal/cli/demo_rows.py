"""Rows for the demonstration, found on every machine that has lineal: nothing is downloaded."""

from __future__ import annotations

import importlib.util
import random
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

#: Where documentation is found: names of libraries that lineal needs, and of their packages. None is Python itself.
LIBRARIES = {"Python": None, "NumPy": "numpy", "SciPy": "scipy", "scikit-learn": "sklearn"}

#: Folders of a library whose text is not its documentation, or not its own.
LEFT_OUT = frozenset({"tests", "test", "idlelib", "site-packages", "dist-packages", "__pycache__"})

#: Number of paragraphs per library, at most, and number of words that a paragraph has, at least.
PARAGRAPHS, WORDS = 4000, 8

#: Number of paragraphs of a library that are enough for a demonstration.
ENOUGH = 200

#: One image or file of this many is kept for the test.
FOURTH = 4

_DOCUMENTATION = re.compile(r'"""(.*?)"""', re.DOTALL)
_EMPTY_LINE = re.compile(r"\n\s*\n")
_WORD = re.compile(r"[^\W\d_]{2,}")


class Rows(NamedTuple):
    """Rows to train on and rows to test on, with their labels."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def digits() -> Rows:
    """Images of handwritten digits, 8 × 8 pixels; they come with scikit-learn."""
    import numpy as np
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    test = np.arange(len(X)) % FOURTH == FOURTH - 1
    return Rows(X[~test], y[~test], X[test], y[test])


def documentation() -> Rows | None:
    """Paragraphs of documentation as word weights (tf-idf), labelled with their library; None if there are too few.

    Paragraphs of one file are alike, so whole files are kept for the test.
    """
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts: list[str] = []
    labels: list[str] = []
    tests: list[bool] = []
    for library, package in LIBRARIES.items():
        found = dict(_paragraphs(_home(package)))
        if len(found) < ENOUGH:
            return None
        texts += found.keys()
        tests += found.values()
        labels += [library] * len(found)
    y, test = np.array(labels), np.array(tests)
    train = np.flatnonzero(~test)
    words = TfidfVectorizer(sublinear_tf=True).fit([texts[i] for i in train])
    X = words.transform(texts)
    return Rows(X[train], y[train], X[test], y[test])


def _home(package: str | None) -> Path:
    """Folder of the sources of a package, without importing it."""
    if package is None:
        return Path(sysconfig.get_path("stdlib"))
    spec = importlib.util.find_spec(package)
    return Path("nowhere" if spec is None or spec.origin is None else spec.origin).parent


def _paragraphs(home: Path) -> Iterator[tuple[str, bool]]:
    """Paragraphs between triple quotes in some of the files, and whether they are for the test."""
    files = [path for path in sorted(home.rglob("*.py")) if not LEFT_OUT.intersection(path.relative_to(home).parts)]
    random.Random(0).shuffle(files)
    count = 0
    for number, path in enumerate(files):
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for text in _DOCUMENTATION.findall(source):
            for paragraph in _EMPTY_LINE.split(text):
                if len(_WORD.findall(paragraph)) >= WORDS:
                    yield " ".join(paragraph.split()), number % FOURTH == FOURTH - 1
                    count += 1
        if count >= PARAGRAPHS:
            return
