"""`TextFeatures` against scikit-learn's vectorisers: the same terms, counts and weights; threads, input, files."""

from __future__ import annotations

import gzip
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from texts import MULTILINGUAL, random_documents

import lineal
from lineal import TextFeatures
from lineal.data.terms import blocks, documents, workers
from lineal.errors import DataError, OptionError
from lineal.features import serial

DOCUMENTS = MULTILINGUAL + random_documents(0, 200)
NEW = [*random_documents(7, 60), "unseen words only", "", *MULTILINGUAL[:4]]

#: Half of the last place of float32: the difference of a float64 and its rounding.
ROUNDING = 6e-8

OPTIONS = [
    {},
    {"ngram_range": (1, 2), "sublinear_tf": True},
    {"ngram_range": (2, 3), "norm": "l1"},
    {"ngram_range": (1, 4), "binary": True},
    {"stop_words": ["ab", "the", "άσ", "wide", "ab"], "ngram_range": (1, 2)},
    {"lowercase": False, "smooth_idf": False},
    {"strip_accents": "unicode", "min_df": 2},
    {"strip_accents": "ascii", "max_df": 0.2},
    {"max_features": 10},
    {"max_features": 50, "ngram_range": (1, 2), "binary": True, "min_df": 2},
    {"max_features": 37, "ngram_range": (1, 3), "norm": None},
    {"vocabulary": ["ab", "x y", "zero", "ab ab", "never seen", " a", "a  b", ""], "ngram_range": (1, 2)},
    {"vocabulary": {"foo_bar": 1, "the": 0}, "norm": None},
    {"analyzer": "char", "ngram_range": (1, 3)},
    {"analyzer": "char", "ngram_range": (2, 9), "min_df": 2, "max_features": 100},
    {"analyzer": "char_wb", "ngram_range": (1, 5), "strip_accents": "unicode"},
    {"analyzer": "char_wb", "ngram_range": (4, 12), "lowercase": False},
    {"analyzer": "char", "ngram_range": (3, 3), "vocabulary": ["the", "σ σ", "a b"]},
]


def assert_same_rows(found, expected, rounding=ROUNDING):
    expected = expected.tocsr()
    expected.sort_indices()
    assert found.shape == expected.shape
    assert found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.data, expected.data, rtol=rounding, atol=0)


@pytest.mark.parametrize("options", OPTIONS)
def test_tf_idf_is_that_of_scikit_learn(options):
    with np.errstate(divide="ignore"):
        reference = TfidfVectorizer(**options)
        expected = reference.fit_transform(DOCUMENTS)
        later = reference.transform(NEW)
    for threads in (1, 3):
        features = TextFeatures(**options, n_jobs=threads)
        rows = features.fit_transform(DOCUMENTS)
        assert rows.dtype == np.float32
        assert rows.has_canonical_format
        assert features.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
        assert features.vocabulary_ == {str(term): int(column) for term, column in reference.vocabulary_.items()}
        assert_same_rows(rows, expected)
        assert_same_rows(features.transform(NEW), later)
        assert_same_rows(pickle.loads(pickle.dumps(features)).transform(NEW), later)
        np.testing.assert_allclose(features.idf_, reference.idf_, rtol=1e-15)
        precise = clone(features).set_params(dtype=np.float64).fit(DOCUMENTS)
        assert_same_rows(precise.transform(NEW), later, 1e-15 * 8)


def round_robin(tasks, workers, work):
    """Each worker does every n-th block, whichever thread would have been free."""
    return [work(place % len(workers), task) for place, task in enumerate(tasks)]


@pytest.mark.parametrize("options", [*OPTIONS, {"hashing": 6}])
def test_threads_and_blocks_make_no_difference(options, monkeypatch):
    one = TextFeatures(**options, n_jobs=1)
    expected, later = one.fit_transform(DOCUMENTS), one.transform(NEW)
    monkeypatch.setattr(blocks, "SMALL_BLOCK", 50)
    monkeypatch.setattr(workers, "ENTRIES", 16)
    monkeypatch.setattr(documents, "FIRST_COUNT", 40)
    monkeypatch.setattr(documents, "CHUNK", 1 << 12)
    for over in (blocks.over, round_robin):
        monkeypatch.setattr(blocks, "over", over)
        several = TextFeatures(**options, n_jobs=3)
        assert_same_rows(several.fit_transform(DOCUMENTS), expected, 0)
        assert_same_rows(several.transform(NEW), later, 0)
        assert several.get_feature_names_out().tolist() == one.get_feature_names_out().tolist()


@pytest.mark.parametrize("options", OPTIONS)
def test_counts_are_those_of_scikit_learn(options):
    known = CountVectorizer().get_params()
    options = {name: value for name, value in options.items() if name in known}
    expected = CountVectorizer(**options).fit_transform(DOCUMENTS)
    features = TextFeatures(**options, use_idf=False, norm=None)
    assert_same_rows(features.fit_transform(DOCUMENTS), expected, 0)
    assert not hasattr(features, "idf_")


@pytest.mark.parametrize("bits", [3, 18])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"ngram_range": (1, 2), "norm": "l1"}, {"ngram_range": (2, 4), "norm": None}, {"alternate_sign": False},
        {"stop_words": ["ab", "the"], "ngram_range": (1, 3)}, {"binary": True},
        {"analyzer": "char_wb", "ngram_range": (2, 5)},
        {"analyzer": "char", "ngram_range": (1, 9), "strip_accents": "unicode", "lowercase": False},
    ],
)  # fmt: skip
def test_hashing_is_that_of_scikit_learn(options, bits):
    reference = HashingVectorizer(n_features=2**bits, **options)
    features = TextFeatures(**options, hashing=bits, use_idf=False, n_jobs=2)
    assert_same_rows(features.transform(DOCUMENTS), reference.transform(DOCUMENTS))
    assert_same_rows(clone(features).fit_transform(NEW), reference.transform(NEW))


def test_idf_of_hashed_columns():
    options = {"n_features": 2**10, "alternate_sign": False, "norm": None}
    reference = make_pipeline(HashingVectorizer(**options), TfidfTransformer(sublinear_tf=True))
    features = TextFeatures(hashing=10, alternate_sign=False, sublinear_tf=True)
    with pytest.raises(NotFittedError):
        features.transform(NEW)
    assert_same_rows(features.fit_transform(DOCUMENTS), reference.fit_transform(DOCUMENTS))
    assert_same_rows(features.transform(NEW), reference.transform(NEW))
    assert features.get_feature_names_out()[-1] == "textfeatures1023"


def skip_grams(words, low, high, skips):
    """All choices of words in order that leave out at most `skips` in between, spelled out."""
    found = []

    def extend(chosen, left):
        if low <= len(chosen) <= high:
            found.append(" ".join(words[i] for i in chosen))
        if len(chosen) < high:
            for gap in range(left + 1):
                if chosen[-1] + 1 + gap < len(words):
                    extend([*chosen, chosen[-1] + 1 + gap], left - gap)

    for first in range(len(words)):
        extend([first], skips)
    return found


@pytest.mark.parametrize(("low", "high", "skips"), [(1, 2, 1), (2, 2, 3), (1, 3, 2), (3, 4, 1)])
def test_skip_grams(low, high, skips):
    words = CountVectorizer(stop_words=["ab"]).build_analyzer()
    reference = CountVectorizer(analyzer=lambda document: skip_grams(words(document), low, high, skips))
    expected = reference.fit_transform(DOCUMENTS)
    options = {"ngram_range": (low, high), "skips": skips, "stop_words": ["ab"], "use_idf": False, "norm": None}
    features = TextFeatures(**options)
    assert_same_rows(features.fit_transform(DOCUMENTS), expected, 0)
    assert features.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
    assert_same_rows(features.transform(NEW), reference.transform(NEW), 0)
    hashed = HashingVectorizer(analyzer=reference.analyzer, n_features=2**12, norm=None)
    assert_same_rows(TextFeatures(**options, hashing=12).transform(NEW), hashed.transform(NEW), 0)


def test_long_texts_and_many_terms():
    """A cell of a million characters, texts that make all tables grow, empty texts around them."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}é" if i % 7 == 0 else f"word{i}" for i in range(60_000)])
    long = " ".join(rng.choice(words, 150_000))
    documents = ["", long[:1_000_000], "", *(" ".join(rng.choice(words, 300)) for _ in range(100)), "x" * 1_000_000, ""]
    for options in ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (3, 4)}):
        expected = CountVectorizer(**options).fit_transform(documents)
        for threads in (1, 2):
            features = TextFeatures(**options, use_idf=False, norm=None, n_jobs=threads)
            assert_same_rows(features.fit_transform(documents), expected, 0)
            assert_same_rows(features.transform(documents), expected, 0)
    hashed = HashingVectorizer(ngram_range=(1, 2), norm=None).transform(documents)
    assert_same_rows(
        TextFeatures(ngram_range=(1, 2), hashing=20, use_idf=False, norm=None).transform(documents), hashed
    )


@pytest.mark.parametrize("kind", ["list", "tuple", "iterator", "object", "fixed", "pandas", "pandas object",
                                  "categories", "frame", "arrow", "arrow small", "arrow chunks", "arrow slice",
                                  "arrow dictionary", "bytes", "arrow bytes", "column"])  # fmt: skip
def test_kinds_of_input(kind):
    texts = [text for text in DOCUMENTS if "\0" not in text]  # NumPy's fixed strings drop zeros at the end
    expected = TextFeatures().fit_transform(texts)
    series = pd.Series(texts)
    made = {
        "list": texts, "tuple": tuple(texts), "iterator": iter(texts),
        "object": np.array(texts, object),
        "fixed": np.array(texts), "pandas": series, "pandas object": series.astype(object),
        "categories": series.astype("category"), "frame": series.to_frame("text"),
        "arrow": pa.array(texts, pa.large_string()),
        "arrow small": pa.array(texts), "arrow chunks": pa.chunked_array([texts[:10], [], texts[10:]]),
        "arrow slice": pa.array(["x", *texts, "y"], pa.large_string())[1:-1],
        "arrow dictionary": pa.array(texts).dictionary_encode(), "bytes": [text.encode() for text in texts],
        "arrow bytes": pa.array([text.encode() for text in texts]), "column": np.array(texts, object)[:, None],
    }[kind]  # fmt: skip
    found = TextFeatures().fit_transform(made)
    assert_same_rows(found, expected, 0)


def test_halves_of_surrogate_pairs():
    documents = ["ab \ud800 cd\udfff", "ab", "\ud83d\ude00 ab"]
    for options in ({}, {"analyzer": "char"}):
        reference = CountVectorizer(**options)
        expected = reference.fit_transform(documents)
        features = TextFeatures(**options, use_idf=False, norm=None)
        assert_same_rows(features.fit_transform(documents), expected, 0)
        assert features.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()


@pytest.mark.parametrize("decode_error", ["ignore", "replace"])
def test_bytes_that_are_not_utf_8(decode_error):
    documents = [b"caf\xc3\xa9 ok", b"caf\xe9 bad \xff\xfe end", b"cut \xe4\xb8", "a str"]
    for analyzer in ("word", "char"):
        reference = CountVectorizer(analyzer=analyzer, decode_error=decode_error)
        expected = reference.fit_transform(documents)
        features = TextFeatures(analyzer, decode_error=decode_error, use_idf=False, norm=None)
        assert_same_rows(features.fit_transform(documents), expected, 0)
        assert features.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
    for given in (documents, pa.array(documents[:3])):
        with pytest.raises(DataError, match="row 1 is not UTF-8: invalid continuation byte at byte 3"):
            TextFeatures().fit(given)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a text", "X is str"), (None, "X is NoneType"), (7, "X is int"), (["a", None], "row 1 has no text"),
        (["a", "b", float("nan")], "row 2 has no text"), (["a", 3], "row 1 is int 3, not a text"),
        ([["a", "b"]], "row 0 is list"), (pd.Series(["a", None, "b"]), "row 1 has no text"),
        (pa.array(["a", "b", None]), "row 2 has no text"), (pa.array([1, 2]), "of type int64"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), r"shape \(1, 2\)"), (np.array([["a", "b"]]), r"shape \(1, 2\)"),
        (np.eye(2), r"shape \(2, 2\)"), (pd.Series([1.5, 2.5]), "of type double"),
        (["text"] * 5000 + [None], "row 5000 has no text"),
        (pa.chunked_array([["a"], ["b", None]]), "row 2 has no text"),
        ([], "no documents"), (["", "."], "no terms"),
    ],
)  # fmt: skip
def test_bad_documents(X, message):
    with pytest.raises(DataError, match=message):
        TextFeatures().fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"analyzer": "words"}, "analyzer='words' is unknown: did you mean 'word'"),
        ({"ngram_range": (2, 1)}, "ngram_range"), ({"ngram_range": 2}, "ngram_range"),
        ({"ngram_range": (0, 1)}, "ngram_range"),
        ({"skips": -1, "ngram_range": (1, 2)}, "skips=-1"), ({"skips": 1}, "skips=1 is for n-grams"),
        ({"skips": 1, "analyzer": "char", "ngram_range": (1, 2)}, "skips=1 is for n-grams of words"),
        ({"skips": 20, "ngram_range": (1, 9)}, "more than 256"), ({"strip_accents": "all"}, "strip_accents='all'"),
        ({"lowercase": "yes"}, "lowercase='yes'"), ({"norm": "max"}, "norm='max'"), ({"dtype": "int8"}, "dtype='int8'"),
        ({"dtype": "text"}, "dtype='text'"), ({"min_df": 0}, "min_df=0"), ({"min_df": 1.5}, "min_df=1.5"),
        ({"max_df": True}, "max_df=True"), ({"max_features": 0}, "max_features=0"), ({"hashing": 31}, "hashing=31"),
        ({"hashing": 10, "vocabulary": ["a"]}, "not both"), ({"hashing": 10, "min_df": 2}, "min_df=2 is for a learned"),
        ({"vocabulary": ["a"], "max_features": 3}, "max_features=3 is for a learned"),
        ({"hashing": 10, "sublinear_tf": True}, "alternate_sign=False"),
        ({"stop_words": "german"}, "stop_words='german'"),
        ({"stop_words": [1]}, "stop_words must"), ({"stop_words": ["a"], "analyzer": "char"}, "stop_words are"),
        ({"vocabulary": []}, "vocabulary is empty"), ({"vocabulary": ["a", "a"]}, "'a' comes twice"),
        ({"vocabulary": {"a": 1}}, "columns must be"), ({"vocabulary": [1]}, "1 is not a string"),
        ({"vocabulary": "text"}, "vocabulary must be"), ({"decode_error": "no"}, "decode_error='no'"),
        ({"n_jobs": 0}, "n_jobs=0"), ({"min_df": 100, "max_df": 2}, "max_df=2 allows"),
    ],
)  # fmt: skip
def test_bad_parameters(options, message):
    with pytest.raises(OptionError, match=message):
        TextFeatures(**options).fit(["one text", "two texts"])


def test_nothing_remains():
    with pytest.raises(DataError, match="no terms remain: none is in at least 2"):
        TextFeatures(min_df=2).fit(["one text", "two texts"])
    with pytest.raises(NotFittedError):
        TextFeatures().transform(["one"])
    with pytest.raises(NotFittedError):
        TextFeatures().get_feature_names_out()
    assert TextFeatures().fit(["one"]).transform([]).shape == (0, 1)


@pytest.mark.parametrize("options", OPTIONS[:6] + OPTIONS[11:] + [{"hashing": 8}, {"hashing": 8, "use_idf": False}])
def test_model_files_can_hold_them(options):
    features = TextFeatures(**options).fit(DOCUMENTS)
    values, tensors = serial.to_parts(features)
    again = serial.from_parts(json.loads(json.dumps(values)), tensors)
    assert_same_rows(again.transform(NEW), features.transform(NEW), 0)
    assert again.get_feature_names_out().tolist() == features.get_feature_names_out().tolist()
    for name in tensors:
        damaged = {**tensors, name: tensors[name][:-1]}
        with pytest.raises(ValueError):
            serial.from_parts(values, damaged)
    with pytest.raises(ValueError):
        serial.from_parts({**values, "state": {**values["state"], "extra": 1}}, tensors)


def test_frames_come_out_where_they_are_wanted():
    texts = pd.Series(["ab cd", "cd cd", ""], index=["x", "y", "z"])
    features = TextFeatures(use_idf=False, norm=None).set_output(transform="pandas")
    for frame in (
        features.fit_transform(texts),
        features.transform(texts),
        clone(features).fit(texts).transform(texts),
    ):
        assert frame.columns.tolist() == ["ab", "cd"]
        assert frame.index.tolist() == ["x", "y", "z"]
        assert frame.to_numpy().tolist() == [[1, 1], [0, 2], [0, 0]]
        assert frame.dtypes.iloc[0].subtype == np.float32
    assert features.set_output(transform="default").transform(texts).nnz == 3
    with config_context(transform_output="pandas"):
        assert TextFeatures(hashing=2, use_idf=False).transform(texts).columns[3] == "textfeatures3"


def test_in_a_pipeline():
    documents = [f"{text} {'good' if number % 2 else 'bad'}" for number, text in enumerate(DOCUMENTS)]
    y = np.arange(len(documents)) % 2
    pipeline = make_pipeline(TextFeatures(ngram_range=(1, 2)), lineal.LinearClassifier()).fit(documents, y)
    assert pipeline.score(documents, y) == 1.0
    assert lineal.TextFeatures is TextFeatures
    assert "TextFeatures" in dir(lineal)


@pytest.mark.parametrize("name", ["20newsgroups", "clinc150", pytest.param("wiki_toxicity", marks=pytest.mark.slow)])
def test_real_texts(shared_data, name):
    """Words and bigrams of real documents; of the large sets a part, and all of them in the slow test."""
    check_real_texts(shared_data, name, 600, {"ngram_range": (1, 2)})
    check_real_texts(shared_data, name, 100, {"analyzer": "char_wb", "ngram_range": (2, 4)})


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (3, 4)}])
@pytest.mark.parametrize("name", ["20newsgroups", "clinc150", "wiki_toxicity"])
def test_all_real_texts(shared_data, name, options):
    check_real_texts(shared_data, name, None, options)


def check_real_texts(folder, name, n, options):
    texts = {}
    for part in ("train", "test"):
        with gzip.open(folder / name / f"{part}.jsonl.gz", "rt", encoding="utf-8") as file:
            texts[part] = [json.loads(line)["text"] for line, _ in zip(file, range(10**9 if n is None else n))]
    reference, features = TfidfVectorizer(**options), TextFeatures(**options)
    assert_same_rows(features.fit_transform(texts["train"]), reference.fit_transform(texts["train"]))
    assert_same_rows(features.transform(texts["test"]), reference.transform(texts["test"]))
    assert features.get_feature_names_out().tolist() == reference.get_feature_names_out().tolist()
