"""`HashedTokens`: the rows of Vowpal Wabbit text, pipelines, documents of any characters, bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import murmurhash3_32

import lineal
from lineal.errors import DataError, OptionError
from lineal.features import HashedTokens

DOCUMENTS = [["the", "cat", "sat", "on", "the", "mat"], ["7", "é", "a_rather_long_name"], [], ["one"], ["a"] * 30]


def assert_same_rows(one, other):
    assert one.shape == other.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.core
@pytest.mark.parametrize("namespace", ["", "text"])
@pytest.mark.parametrize("options", [{}, {"ngram": 2}, {"ngram": 3, "skips": 2, "bits": 6}])
def test_rows_are_those_of_vw_text(tmp_path, namespace, options):
    path = tmp_path / "data.vw"
    path.write_text("".join(f"|{namespace} {' '.join(document)}\n" for document in DOCUMENTS))
    rows = HashedTokens(namespace=namespace, **options).fit_transform(DOCUMENTS)
    assert_same_rows(rows, lineal.read(path, **options).X)
    assert rows.has_canonical_format
    strings = HashedTokens(namespace=namespace, **options).transform([" ".join(one) for one in DOCUMENTS])
    assert_same_rows(strings, rows)


@pytest.mark.core
def test_tokens_can_have_any_characters():
    tokens = ["a:0.5", "x|y", "two words", "line\nend", "\0", "\ud800"]
    rows = HashedTokens(bits=30).transform([tokens])
    expected = {murmurhash3_32(token.encode("utf-8", "surrogatepass"), 0, positive=True) % 2**30 for token in tokens}
    assert set(rows.indices.tolist()) == expected
    with_empty = HashedTokens(ngram=2).transform([["", "a", "", "b"]])
    assert_same_rows(with_empty, HashedTokens(ngram=2).transform([("a", "b")]))
    assert HashedTokens().transform([]).shape == (0, 2**18)
    assert HashedTokens().transform(iter([[], []])).nnz == 0
    assert HashedTokens().transform(np.array(["a b", "c"], object)).nnz == 3


def test_online_models_are_those_of_the_text(tmp_path):
    rng = np.random.default_rng(0)
    documents = [[f"w{i}" for i in rng.permutation(6)] for _ in range(500)]
    y = np.array([1 if words.index("w0") < words.index("w1") else -1 for words in documents])
    path = tmp_path / "data.vw"
    path.write_text("".join(f"{label} | {' '.join(words)}\n" for label, words in zip(y, documents)))
    read = lineal.read(path, ngram=2, skips=4)
    pipeline = make_pipeline(HashedTokens(ngram=2, skips=4), lineal.OnlineClassifier()).fit(documents, y)
    expected = lineal.OnlineClassifier().fit(read.X, read.y).decision_function(read.X)
    np.testing.assert_array_equal(pipeline.decision_function(documents), expected)
    assert pipeline.score(documents, y) > 0.95
    again = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(again.decision_function(documents), expected)
    assert clone(pipeline[0]).get_params() == pipeline[0].get_params()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "bits=0"), ({"bits": 31}, "bits=31"), ({"bits": 2.5}, "bits=2.5"), ({"ngram": 0}, "ngram=0"),
        ({"skips": 1}, "set ngram"), ({"ngram": "text=2"}, "one number"), ({"namespace": None}, "namespace=None"),
    ],
)  # fmt: skip
def test_bad_parameters(options, message):
    for call in (lambda one: one.fit(DOCUMENTS), lambda one: one.transform(DOCUMENTS)):
        with pytest.raises(OptionError, match=message):
            call(HashedTokens(**options))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a document", "X is a str"), (None, "X is a NoneType"), ([["a"], None], "document 1 is None"),
        ([["a", 3]], "token 1 of document 0 is 3, not a string"), ([[b"a"]], "token 0 of document 0"),
        (np.eye(2), "token 0 of document 0"), ([["a"], b"bytes"], "document 1"), ([["a"], b""], "document 1"),
        ([["a"], ["b", None]], "token 1 of document 1 is None"), ([["a", 0]], "token 1 of document 0 is 0"),
        ([["a", []]], r"token 1 of document 0 is \[\]"), ([["a", float("nan")]], "token 1 of document 0 is nan"),
    ],
)  # fmt: skip
def test_bad_documents(X, message):
    with pytest.raises(DataError, match=message):
        HashedTokens().transform(X)
