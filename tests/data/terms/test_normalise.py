"""The kernels that lower and split text: the same words and characters as Python's, on any bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode
from texts import MULTILINGUAL, random_documents

from lineal.core.jit import IS_PLAIN
from lineal.data.terms.analysis import Analysis
from lineal.data.terms.documents import Documents
from lineal.data.terms.normalise import cut_words, normalise_characters, normalise_words
from lineal.data.terms.state import Text
from lineal.data.terms.workers import Worker
from lineal.data.text.byte_words import U

STRIP = {None: str, "ascii": strip_accents_ascii, "unicode": strip_accents_unicode}
WORDS = re.compile(r"(?u)\b\w\w+\b")
SPACES = re.compile(r"\s\s+")


class Reader(Worker):
    """Words or characters of one document at a time."""

    def __init__(self, **options):
        super().__init__(Analysis(**options))

    def _retried(self, step):
        found = None

        def attempt():
            nonlocal found
            found, status = step()
            return status

        self.run(attempt, 0, 1, {})
        return int(found)

    def words(self, data: bytes):
        documents = Documents(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
        text = Text(documents.data, documents.offsets)
        q = self._retried(
            lambda: normalise_words(text, U(0), self.characters, self.rules.fold, self.scratch, self.progress)
        )
        m = int(cut_words(self.scratch, U(q)))
        made, edges = self.scratch.text.tobytes(), self.scratch.edges.tolist()
        return [made[edges[2 * i] : edges[2 * i + 1]].decode("utf-8", "surrogatepass") for i in range(m)]

    def characters_of(self, data: bytes):
        documents = Documents(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
        text = Text(documents.data, documents.offsets)
        n = self._retried(
            lambda: normalise_characters(
                text, U(0), self.characters, self.rules.between_words, self.scratch, self.progress
            )
        )
        made, edges = self.scratch.text.tobytes(), self.scratch.edges.tolist()
        return [made[edges[i] : edges[i + 1]].decode("utf-8", "surrogatepass") for i in range(n)]


def prepared(text, lowercase, strip_accents):
    return STRIP[strip_accents](text.lower() if lowercase else text)


@pytest.mark.core
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [None, "ascii", "unicode"])
def test_words_are_those_of_python(lowercase, strip_accents):
    reader = Reader(lowercase=lowercase, strip_accents=strip_accents)
    for text in MULTILINGUAL + random_documents(1, 20 if IS_PLAIN else 2000):
        assert reader.words(text.encode()) == WORDS.findall(prepared(text, lowercase, strip_accents)), text


@pytest.mark.core
@pytest.mark.parametrize("strip_accents", [None, "ascii", "unicode"])
def test_characters_are_those_of_python(strip_accents):
    plain = Reader(analyzer="char", strip_accents=strip_accents)
    words = Reader(analyzer="char_wb", strip_accents=strip_accents)
    for text in MULTILINGUAL + random_documents(2, 20 if IS_PLAIN else 2000):
        expected = SPACES.sub(" ", prepared(text, True, strip_accents))
        assert plain.characters_of(text.encode()) == list(expected), text
        assert "".join(words.characters_of(text.encode())) == " ".join(["", *expected.split(), ""]), text
