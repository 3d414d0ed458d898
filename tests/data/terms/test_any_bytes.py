"""Random bytes as documents: every kernel of a pass gives what Python gives for them, and stays within its arrays."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from texts import MULTILINGUAL, random_documents

from lineal.core.jit import IS_PLAIN
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.applying import Applier, hashing_of
from lineal.data.terms.documents import Documents
from lineal.data.terms.learning import Limits, count, matrix_of, settle
from lineal.data.terms.rows import Weights

COUNTS = Weights(False, False, np.uint8(0), np.empty(0))
HERE = Path(__file__).resolve().parent

#: Bytes that begin or continue characters, right and wrong.
PALETTE = np.array([0x20, 0x41, 0x61, 0x80, 0x85, 0xA0, 0xA3, 0xBF, 0xC0, 0xC2, 0xC3, 0xCE, 0xE0, 0xE2, 0xED, 0xEF,
                    0xF0, 0xF4, 0xF5, 0xFF], np.uint8)  # fmt: skip


def one_by_one(error):
    """What the kernels do with bytes that are not UTF-8: each is a U+FFFD; halves of surrogate pairs are characters."""
    part = error.object[error.start : error.start + 3]
    if len(part) == 3 and part[0] == 0xED and 0xA0 <= part[1] <= 0xBF and 0x80 <= part[2] <= 0xBF:
        return part.decode("utf-8", "surrogatepass"), error.start + 3
    return "\ufffd", error.start + 1


codecs.register_error("one_by_one", one_by_one)


def random_bytes(seed, n, most):
    """Random bytes; bytes of the palette; cuts of texts at any byte; the same with bytes that were changed."""
    rng = np.random.default_rng(seed)
    text = np.frombuffer("".join(random_documents(seed, 2000) + MULTILINGUAL).encode(), np.uint8)
    changed = text.copy()
    places = rng.integers(0, len(text), len(text) // 8)
    changed[places] = rng.integers(0, 256, len(places))
    noise = rng.integers(0, 256, 1 << 16).astype(np.uint8)
    sources = [source.tobytes() for source in (noise, rng.choice(PALETTE, 1 << 16), text, changed)]
    kinds, lengths = rng.integers(0, 4, n).tolist(), rng.integers(0, most, n).tolist()
    starts = rng.random(n).tolist()
    return [
        sources[kind][(begin := int(start * (len(sources[kind]) - most))) : begin + length]
        for kind, length, start in zip(kinds, lengths, starts)
    ]


def check_random_bytes(seed, n, most=60, threads=2):
    """Vocabulary, counts and hashed rows are those of the decoded texts."""
    data = random_bytes(seed, n, most)
    texts = [one.decode("utf-8", "one_by_one") for one in data]
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum([len(one) for one in data], out=offsets[1:])
    documents = Documents(np.frombuffer(b"".join(data), np.uint8), offsets)
    for options in ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 3)}):
        analysis = Analysis(**options)
        reference = CountVectorizer(**options)
        expected = reference.fit_transform(texts)
        expected.sort_indices()
        counted = count([documents], analysis, threads)
        vocabulary, maps = settle(counted, Limits(), False)
        found = matrix_of(counted, maps, vocabulary.n_columns, COUNTS, np.float32)
        assert vocabulary.find_names().texts() == reference.get_feature_names_out().tolist()
        later = Applier(analysis, vocabulary.lookup, vocabulary.n_columns, COUNTS, np.float32, threads)
        for rows in (found, later.matrix([documents])):
            assert np.array_equal(rows.indptr, expected.indptr)
            assert np.array_equal(rows.indices, expected.indices)
            assert np.array_equal(rows.data, expected.data)
        expected = HashingVectorizer(n_features=2**12, norm=None, **options).transform(
            [text.encode("utf-8", "replace").decode() for text in texts]
        )
        if options.get("analyzer") is None:  # no word has a surrogate, and scikit-learn cannot hash one
            hashed = Applier(analysis, hashing_of(analysis, 12, True), 2**12, COUNTS, np.float32, threads)
            assert abs(hashed.matrix([documents]) - expected).max() == 0


@pytest.mark.core
def test_any_bytes():
    check_random_bytes(3, 30 if IS_PLAIN else 20_000)


@pytest.mark.parametrize(
    ("settings", "n"),
    [
        ({"NUMBA_DISABLE_JIT": "1"}, 40),  # NumPy checks the indices
        pytest.param({"NUMBA_BOUNDSCHECK": "1"}, 1_000_000, marks=pytest.mark.slow),
    ],
)
def test_any_bytes_with_checks_of_all_indices(settings, n, tmp_path):
    code = (
        f"import sys; sys.path[:0] = [{str(HERE)!r}, {str(HERE.parents[1])!r}]\n"
        f"from test_any_bytes import check_random_bytes; check_random_bytes(4, {n}, 40)"
    )
    environment = {**os.environ, "LINEAL_CACHE_DIR": str(tmp_path), **settings}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
