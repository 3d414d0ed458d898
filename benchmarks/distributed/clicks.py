"""Generated clicks as VW text: who sees which advertisement on which page, after which query.

Every row has 20 features in four namespaces, all of them drawn from Zipf's law. About 5 % of the rows are clicks. The
score of a row is a sum of effects of single features, of products of a frequent feature with frequent features of
other columns, and of pairs of words that follow each other in the query. Rows are made and written chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Namespaces with their columns: the letter before the number of a feature, and how many features there are.
COLUMNS = {
    "user": (("u", 2_000), ("age", 8), ("region", 50)),
    "ad": (("a", 2_000), ("campaign", 500), ("brand", 100), ("size", 6)),
    "page": (("p", 2_000), ("site", 200), ("section", 20)),
}
WORDS, QUERY = 1_000, 10

#: Exponent of Zipf's law.
SKEW = 1.3

#: Share of clicks.
CLICKS = 0.05

#: Standard deviation of the effects of features and of words, and the size of those of products and of pairs of words.
EFFECT, WORD_EFFECT, PRODUCT_EFFECT, PAIR_EFFECT = 0.3, 0.15, 0.9, 0.6

#: The most frequent value of each of these columns is multiplied with the first values of columns of other namespaces.
HUBS = ("age", "size", "section")
PARTNERS = {"age": 3, "region": 3, "brand": 4, "size": 2, "site": 4, "section": 2}
HUB_EFFECT = 2.5

#: Pairs of words, among the most frequent ones.
PAIRS, PAIR_WORDS = 200, 20

CHUNK_ROWS = 100_000
SALT_OF_TEST = 1 << 20


class Feature(NamedTuple):
    """A feature: its namespace, its column, its number."""

    namespace: str
    column: str
    number: int

    @property
    def name(self) -> str:
        """What the text calls it."""
        return f"{self.column}{self.number}"


class Chunk(NamedTuple):
    """Some rows: the number of the feature in each column, the words, the scores, and whether they are clicks."""

    features: dict[str, np.ndarray]
    words: np.ndarray
    scores: np.ndarray
    is_click: np.ndarray


@dataclass(frozen=True)
class Files:
    """Files of rows, those to test on with what is known about them, and the products that are in the scores."""

    train: list[Path]
    test: Path
    test_clicks: np.ndarray
    test_scores: np.ndarray
    products: list[tuple[Feature, Feature]]

    @property
    def size(self) -> int:
        """Bytes to learn from."""
        return sum(path.stat().st_size for path in self.train)


class Generator:
    """Generated rows, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = np.random.default_rng([seed, 0])
        self.sizes = {name: size for columns in COLUMNS.values() for name, size in columns}
        self.owners = {name: owner for owner, columns in COLUMNS.items() for name, _ in columns}
        self.effects = {name: EFFECT * rng.standard_normal(size) for name, size in self.sizes.items()}
        for hub in HUBS:
            self.effects[hub][0] = HUB_EFFECT * rng.choice([-1.0, 1.0])
        self.word_effects = WORD_EFFECT * rng.standard_normal(WORDS)
        self.products = [
            (Feature(self.owners[hub], hub, 0), Feature(self.owners[other], other, number))
            for i, hub in enumerate(HUBS)
            for other, count in PARTNERS.items()
            for number in range(count)
            if self.owners[other] != self.owners[hub] and (other, number) not in [(one, 0) for one in HUBS[: i + 1]]
        ]
        self.product_effects = PRODUCT_EFFECT * rng.choice([-1.0, 1.0], len(self.products))
        self.pairs = rng.choice(PAIR_WORDS**2, PAIRS, replace=False)
        self.pair_effects: np.ndarray = np.zeros(PAIR_WORDS**2)
        self.pair_effects[self.pairs] = PAIR_EFFECT * rng.choice([-1.0, 1.0], PAIRS)
        self.laws = {size: _cumulated(size) for size in {*self.sizes.values(), WORDS}}
        self.base = self._calibrated()

    def chunks(self, rows: int, salt: int) -> Iterator[Chunk]:
        """Rows, chunk by chunk; another salt gives other rows."""
        for number, first in enumerate(range(0, rows, CHUNK_ROWS)):
            rng = np.random.default_rng([self.seed, 1 + salt, number])
            yield self._chunk(rng, min(CHUNK_ROWS, rows - first))

    def _chunk(self, rng: np.random.Generator, n: int) -> Chunk:
        features = {name: self._drawn(rng, size, n) for name, size in self.sizes.items()}
        words = self._drawn(rng, WORDS, (n, QUERY))
        scores = self._scores(features, words) + self.base
        return Chunk(features, words, scores, rng.random(n) < 1.0 / (1.0 + np.exp(-scores)))

    def _drawn(self, rng: np.random.Generator, size: int, shape: Any) -> np.ndarray:
        return np.searchsorted(self.laws[size], rng.random(shape), side="right").astype(np.int32)

    def _scores(self, features: dict[str, np.ndarray], words: np.ndarray) -> np.ndarray:
        scores = self.word_effects[words].sum(axis=1)
        for name, numbers in features.items():
            scores += self.effects[name][numbers]
        for (one, other), effect in zip(self.products, self.product_effects):
            scores += effect * ((features[one.column] == one.number) & (features[other.column] == other.number))
        first, second = words[:, :-1], words[:, 1:]
        is_frequent = (first < PAIR_WORDS) & (second < PAIR_WORDS)
        pairs = np.where(is_frequent, first * PAIR_WORDS + second, 0)
        return scores + np.where(is_frequent, self.pair_effects[pairs], 0.0).sum(axis=1)

    def _calibrated(self) -> float:
        """The constant that makes the share of clicks what it should be, by bisection."""
        self.base = 0.0
        scores = self._chunk(np.random.default_rng([self.seed, 0, 1]), CHUNK_ROWS).scores
        low, high = -30.0, 30.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            is_high = np.mean(1.0 / (1.0 + np.exp(-(scores + middle)))) > CLICKS
            low, high = (low, middle) if is_high else (middle, high)
        return low


def write(folder: Path, rows: int, parts: int, seed: int) -> Files:
    """Write `rows` rows to learn from into files, and a tenth as many, at most half a million, to test on."""
    generator, texts = Generator(seed), _Texts()
    train = [folder / f"train-{number}.vw" for number in range(parts)]
    for number, path in enumerate(train):
        count = rows * (number + 1) // parts - rows * number // parts
        with path.open("wb") as file:
            for chunk in generator.chunks(count, number):
                file.write(texts.of(chunk))
    test, clicks, scores = folder / "test.vw", [], []
    with test.open("wb") as file:
        for chunk in generator.chunks(max(1, min(rows // 10, 500_000)), SALT_OF_TEST):
            file.write(texts.of(chunk))
            clicks.append(chunk.is_click)
            scores.append(chunk.scores)
    return Files(train, test, np.concatenate(clicks), np.concatenate(scores), generator.products)


class _Texts:
    """Rows as text: the parts of lines are looked up by number, and joined by Arrow."""

    def __init__(self) -> None:
        self._labels = pa.array(["-1", "1"])
        self._names = {
            name: pa.array([f"|{owner} {name}{i}" if name == columns[0][0] else f"{name}{i}" for i in range(size)])
            for owner, columns in COLUMNS.items()
            for name, size in columns
        }
        self._words = pa.array([f"w{i}" for i in range(WORDS)])
        self._first_words = pa.array([f"|query w{i}" for i in range(WORDS)])
        self._last_words = pa.array([f"w{i}\n" for i in range(WORDS)])

    def of(self, chunk: Chunk) -> bytes:
        """The lines of some rows."""
        columns = [self._labels.take(pa.array(chunk.is_click.astype(np.int8)))]
        columns += [self._names[name].take(pa.array(numbers)) for name, numbers in chunk.features.items()]
        words = [pa.array(np.ascontiguousarray(column)) for column in chunk.words.T]
        columns += [self._first_words.take(words[0]), *(self._words.take(one) for one in words[1:-1])]
        columns += [self._last_words.take(words[-1])]
        lines = pc.binary_join_element_wise(*columns, " ")
        _, stops, text = lines.buffers()
        return bytes(text[: int(np.frombuffer(stops, np.int32, len(lines) + 1)[-1])])


def _cumulated(size: int) -> np.ndarray:
    """Probabilities of Zipf's law, added up."""
    weights = np.arange(1, size + 1) ** -SKEW
    return np.cumsum(weights / weights.sum())
