"""Tables of characters: they say what `str` and `unicodedata` say, for every character there is."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import strip_accents_ascii, strip_accents_unicode

from lineal.data.terms import characters
from lineal.data.terms.characters import CODE_POINT, MANY, SIGMA, SPACE, WORD, tables_for

STRIP = {None: str, "ascii": strip_accents_ascii, "unicode": strip_accents_unicode}


def made(tables, c):
    """What the tables make of a character: the text, and the flags of each of its characters."""
    entry = int(tables.entries[int(tables.pages[c >> 8]) * 256 + (c & 255)])
    if not entry & MANY:
        return [entry]
    start, stop = tables.pool_starts[(entry & CODE_POINT) : (entry & CODE_POINT) + 2]
    return [int(one) for one in tables.pool[start:stop]]


def pages(step):
    return sorted({0, 1, 2, 3, 4, 5, 6, 0x1E, 0x1F, 0x20, 0x21, 0x2C, 0xD8, 0xFB, 0xFD, 0xFE, 0xFF, 0x104, 0x1D7,
                   *range(0, characters.N_PAGES, step)})  # fmt: skip


@pytest.mark.core
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [None, "ascii", "unicode"])
def test_tables_are_those_of_python(lowercase, strip_accents):
    owner = characters.CharacterTables(lowercase, strip_accents)
    for page in pages(977):
        tables = owner.with_page(page)
        for c in range(page * 256, page * 256 + 256):
            text = chr(c)
            expected = STRIP[strip_accents](text.lower() if lowercase else text)
            entries = made(tables, c)
            if lowercase and text == "Σ":
                assert int(tables.entries[int(tables.pages[3]) * 256 + 0xA3]) & SIGMA
            assert "".join(chr(entry & CODE_POINT) for entry in entries) == expected
            for entry, one in zip(entries, expected):
                assert bool(entry & WORD) == bool(re.match(r"\w", one))
                assert bool(entry & SPACE) == bool(re.match(r"\s", one)) == one.isspace()


@pytest.mark.core
def test_pages_are_made_once_and_shared():
    owner = tables_for(True, None)
    assert tables_for(True, None) is owner
    before = owner.with_page(0x104)
    assert owner.with_page(0x104) is before
    assert owner.tables.pages.dtype == np.int32
    assert sys.maxunicode + 1 == characters.N_PAGES * 256
