"""N-grams of Vowpal Wabbit text: a naive twin, VW itself, blocks and threads, schemas, model files."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import murmurhash3_32

import lineal
from lineal.data.options import ReadOptions
from lineal.data.schema import Schema
from lineal.data.stream import stream
from lineal.data.text import assemble
from lineal.errors import DataError, OptionError, ParseError

LINES = [
    "1 |text the cat sat on the mat |user u1 7 |other a:0.5 b c:2",
    "-1 |text:2 the the the the |user |other x",
    "1 2 'tag|text one|user a b:0 c :3 :4 d",
    "-1 | no name at all|text",
    "1 |",
    "1 |text é ü é",
]


def naive_hash(name: str, seed: int) -> int:
    return int(name) + seed if name.isdecimal() else murmurhash3_32(name.encode(), seed, positive=True)


def naive_row(line: str, bits: int, ngram, skips: int) -> Counter:
    """The values of one line by column; `ngram` is a number or a dict by namespace."""
    row: Counter = Counter()
    for part in line.split("|")[1:]:
        space, *features = part.split() if not part[:1].isspace() and part else ["", *part.split()]
        name, _, weight = space.partition(":")
        seed = naive_hash(name, 0) if name else 0
        columns, unnamed = [], 0
        for feature in features:
            text, _, value = feature.partition(":")
            column = naive_hash(text, seed) if text else seed + unnamed
            unnamed += not text
            if amount := float(value or 1) * float(weight or 1):
                columns.append(column % 2**bits)
                row[columns[-1]] += amount
        for n in range(2, (ngram.get(name, 1) if isinstance(ngram, dict) else ngram) + 1):
            for places in combinations(range(len(columns)), n):
                if places[-1] - places[0] - (n - 1) <= skips:
                    column = 0
                    for place in places:
                        column = (column * 27942141 + columns[place]) % 2**bits
                    row[column] += 1.0
    return row


def rows_of(X) -> list[dict[int, float]]:
    found = []
    for i in range(X.shape[0]):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        row: Counter = Counter()
        for column, value in zip(X.indices[entries].tolist(), X.data[entries].tolist()):
            row[column] += value
        found.append(dict(row))
    return found


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "data.vw"
    file.write_text("\n".join(LINES))
    return str(file)


@pytest.mark.core
@pytest.mark.parametrize("ngram", [1, 2, 3, 4])
@pytest.mark.parametrize("skips", [0, 1, 2, 3])
def test_agrees_with_the_naive_twin(path, ngram, skips):
    if ngram == 1 and skips:
        with pytest.raises(OptionError, match="set ngram"):
            lineal.read(path, ngram=ngram, skips=skips)
        return
    for bits in (5, 18, 30):
        data = lineal.read(path, bits=bits, ngram=ngram, skips=skips)
        assert rows_of(data.X) == [dict(naive_row(line, bits, ngram, skips)) for line in LINES]
        assert data.X.has_canonical_format


@pytest.mark.core
def test_some_namespaces_only(path):
    data = lineal.read(path, ngram="text=3,user=2", skips=1)
    assert rows_of(data.X) == [dict(naive_row(line, 18, {"text": 3, "user": 2}, 1)) for line in LINES]
    with pytest.warns(UserWarning, match=r"'title'.*'text'"):
        lineal.read(path, ngram="title=2")


@pytest.mark.core
def test_counts():
    """L features have L − n + 1 n-grams; repeated ones are summed, whatever their values."""
    row = naive_row("1 |a x x x x", 18, 3, 0)
    assert sorted(row.values()) == [2.0, 3.0, 4.0]


@pytest.mark.core
def test_malformed_lines_leave_nothing_behind(tmp_path):
    file = tmp_path / "data.vw"
    file.write_text("1 |a x y z\n1 |a p q r:x\nbad\n-1 |a s t|b u:1:2\n1 |a v w\n")
    with pytest.raises(ParseError, match=":2:12"):
        lineal.read(file, ngram=2)
    data = lineal.read(file, ngram=2, max_bad_lines=3)
    assert data.bad_lines == 3
    assert rows_of(data.X) == [dict(naive_row(line, 18, 2, 0)) for line in ("1 |a x y z", "1 |a v w")]


@pytest.mark.core
def test_blocks_threads_and_streams_do_not_matter(path, tmp_path, monkeypatch):
    file = tmp_path / "long.vw"
    file.write_text("\n".join(LINES * 20))
    options = {"ngram": 3, "skips": 1}
    whole = rows_of(lineal.read(path, **options).X) * 20
    monkeypatch.setattr(assemble, "CHUNK_BYTES", 100)
    assert rows_of(lineal.read(file, n_jobs=2, **options).X) == whole
    blocks = list(lineal.read_blocks(file, block_bytes=300, **options))
    assert len(blocks) > 3
    assert rows_of(sparse.vstack([block.X for block in blocks])) == whole
    for namespaces in ((), ("text", "user")):
        parts = list(stream(file, ReadOptions(block_bytes=300, **options), namespaces=namespaces))
        assert rows_of(sparse.vstack([part.X for part in parts])) == whole
        if namespaces:  # n-grams belong to the namespace of their features
            kinds = np.concatenate([part.kinds for part in parts])
            texts = [naive_row("|text" + line.split("|text")[1].split("|")[0], 18, 3, 1) for line in LINES[:4]]
            first = parts[0].X.indptr[1]
            assert Counter(parts[0].X.indices[:first][kinds[:first] == 1].tolist()) == texts[0]


@pytest.mark.core
def test_schemas_keep_the_options(path):
    schema = lineal.read(path, ngram="text=2", skips=1).schema
    assert Schema.from_json(schema.to_json()) == schema
    assert rows_of(lineal.read(path, schema=schema).X) == rows_of(lineal.read(path, ngram="text=2", skips=1).X)
    lineal.read(path, schema=schema, ngram="text=2", skips=1)
    for options, message in (({"ngram": 2}, "ngram=text=2"), ({"ngram": "text=2", "skips": 2}, "skips=1")):
        with pytest.raises(OptionError, match=f"cannot be changed: the model was trained with {message}"):
            lineal.read(path, schema=schema, **options)
    plain = lineal.read(path).schema
    assert set(plain.settings) == {"bits", "namespaces", "labels"}
    with pytest.raises(OptionError, match="trained with ngram=1"):
        lineal.read(path, schema=plain, ngram=2)
    for damaged in ({"ngram": 0}, {"ngram": [2]}, {"ngram": 2, "skips": -1}, {"ngram": 2, "skips": None}):
        with pytest.raises(DataError, match="damaged"):
            Schema.from_json(replace(schema, settings={**plain.settings, **damaged}).to_json())


@pytest.mark.parametrize("name", ["data.svm"])
def test_other_formats_refuse_them(tmp_path, name):
    (tmp_path / name).write_text("1 1:2\n")
    for options in ({"ngram": 2}, {"ngram": 2, "skips": 1}):
        with pytest.raises(OptionError, match="ngram=2 does not apply to"):
            lineal.read(tmp_path / name, **options)
    with pytest.raises(OptionError, match="ngram=2 does not apply to"):
        lineal.OnlineClassifier(ngram=2).fit(str(tmp_path / name))


def generated(rng, n: int) -> str:
    """Lines whose label depends on whether w0 comes before w1."""
    lines = []
    for _ in range(n):
        words = [f"w{i}" for i in rng.permutation(4)] + [f"v{i}" for i in rng.integers(0, 20, 3)]
        label = 1 if words.index("w0") < words.index("w1") else -1
        values = [":0.5", ":0", ""]
        rest = " ".join(f"r{i}{values[i % 3]}" for i in rng.integers(0, 9, rng.integers(0, 5)))
        lines.append(f"{label} |text {' '.join(words)} |rest {rest}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("expansion", [None, "adaptive", "quadratic"])
def test_online_models_read_new_text_in_the_same_way(tmp_path, expansion):
    rng = np.random.default_rng(0)
    for name, n in (("train.vw", 1500), ("test.vw", 300)):
        (tmp_path / name).write_text(generated(rng, n))
    train, test = str(tmp_path / "train.vw"), str(tmp_path / "test.vw")
    products = {"interactions": "text*rest"} if expansion == "quadratic" else {}
    model = lineal.OnlineClassifier(ngram=2, skips=2, expansion=expansion, **products).fit(train).model_
    assert (model.schema.settings["ngram"], model.schema.settings["skips"]) == (2, 2)
    model.save(tmp_path / "model")
    loaded = lineal.load(tmp_path / "model")
    assert loaded.learner.options.ngram == 2
    told = model.decision_function(test)
    np.testing.assert_array_equal(loaded.decision_function(test), told)
    accuracy = np.mean((told > 0) == (lineal.read(test).y > 0))
    assert accuracy > 0.97
    plain = lineal.OnlineClassifier().fit(train)
    assert np.mean(plain.predict(lineal.read(test).X) == lineal.read(test).y) < 0.7


def test_arrays_have_no_ngrams():
    for cls in (lineal.OnlineClassifier, lineal.OnlineRegressor):
        with pytest.raises(OptionError, match="HashedTokens"):
            cls(ngram=2).fit(np.eye(4), [0, 1, 0, 1])
        for options in ({"ngram": 0}, {"skips": 1}):
            with pytest.raises(OptionError, match=next(iter(options))):
                cls(**options).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.skipif(importlib.util.find_spec("vowpalwabbit") is None, reason="needs the vowpalwabbit package")
@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        ({}, []), ({"ngram": 2}, ["--ngram", "2"]), ({"ngram": 4, "skips": 3}, ["--ngram", "4", "--skips", "3"]),
        ({"ngram": "text=2,rest=3"}, ["--ngram", "t2", "--ngram", "r3"]),
    ],
)  # fmt: skip
def test_predictions_are_those_of_vw(tmp_path, options, theirs):
    (tmp_path / "train.vw").write_text(generated(np.random.default_rng(2), 400))
    command = [sys.executable, "-m", "vowpalwabbit", "--no_stdin", "-d", "train.vw"]
    subprocess.run([*command, *theirs, "-f", "model"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*command, "-t", "-i", "model", "-p", "told"], cwd=tmp_path, check=True, capture_output=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = lineal.OnlineRegressor(**options).fit(str(tmp_path / "train.vw")).model_
    told = model.predict(str(tmp_path / "train.vw"))
    np.testing.assert_allclose(np.clip(told, -1.0, 1.0), np.loadtxt(tmp_path / "told"), atol=2e-5)
