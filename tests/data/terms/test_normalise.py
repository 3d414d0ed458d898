"""The kernels that lower and split text: the same words and characters as Python's, on any bytes."""

from __future__ import annotations

import re
import subprocess
import sys

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


def random_bytes(rng, most):
    """Bytes of all kinds: any, mostly those of multi-byte characters, or cut texts."""
    kind, length = rng.integers(0, 4), rng.integers(0, most)
    if kind == 0:
        return rng.integers(0, 256, length).astype(np.uint8).tobytes()
    if kind == 1:
        return rng.choice(np.array([0x20, 0x41, 0x61, 0x80, 0xA3, 0xBF, 0xC0, 0xC3, 0xCE, 0xE0, 0xED, 0xEF, 0xF0, 0xF4,
                                    0xF5, 0xFF], np.uint8), length).tobytes()  # fmt: skip
    text = "".join(random_documents(int(rng.integers(2**31)), 1, most)).encode()
    if kind == 2:
        return text[rng.integers(0, 4) : max(len(text) - int(rng.integers(0, 4)), 0)]
    changed = bytearray(text)
    for _ in range(rng.integers(0, 4) if changed else 0):
        changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed)


def check_random_bytes(seed, n, most=80):
    """Words of random bytes are those of the bytes decoded with replacement characters."""
    rng = np.random.default_rng(seed)
    reader, characters = Reader(), Reader(analyzer="char_wb")
    for _ in range(n):
        data = random_bytes(rng, most)
        text = data.decode("utf-8", "replace").lower()
        assert reader.words(data) == WORDS.findall(text), data
        made = "".join(characters.characters_of(data))
        assert re.sub("\ufffd+", "\ufffd", re.sub("[\ud800-\udfff]", "\ufffd", made)) == re.sub(
            "\ufffd+", "\ufffd", " ".join(["", *text.split(), ""])
        ), data


@pytest.mark.core
def test_any_bytes():
    check_random_bytes(3, 30 if IS_PLAIN else 5000)


@pytest.mark.slow
def test_a_million_random_byte_strings_with_bounds_checks(tmp_path):
    """Every access of the kernels is checked in a process of its own."""
    code = (
        f"import sys; sys.path[:0] = {[*sys.path[:1], __file__.rsplit('/', 1)[0], __file__.rsplit('/', 3)[0]]!r}\n"
        "from test_normalise import check_random_bytes; check_random_bytes(4, 1_000_000, 40)"
    )
    environment = {"NUMBA_BOUNDSCHECK": "1", "LINEAL_CACHE_DIR": str(tmp_path)}
    run_checked(code, environment)


def test_random_bytes_with_bounds_checks_in_short(tmp_path):
    """The machinery of the slow test, on few strings, without compiled code: indices of NumPy arrays are checked."""
    code = (
        f"import sys; sys.path[:0] = {[__file__.rsplit('/', 1)[0], __file__.rsplit('/', 3)[0]]!r}\n"
        "from test_normalise import check_random_bytes; check_random_bytes(5, 40)"
    )
    run_checked(code, {"NUMBA_DISABLE_JIT": "1"})


def run_checked(code, environment):
    import os

    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
