"""The options for n-grams: what they say, and the patterns of places that they stand for."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lineal.data.ngrams import NGrams, count_patterns, of_settings, parse
from lineal.errors import OptionError


@pytest.mark.parametrize(
    ("ngram", "skips", "expected"),
    [
        (1, 0, NGrams()), (2, 1, NGrams(2, (), 1)), ("3", "2", NGrams(3, (), 2)), (np.int64(2), 0, NGrams(2)),
        ("text=2", 0, NGrams(1, (("text", 2),))), (" b=3, a = 2", 1, NGrams(1, (("a", 2), ("b", 3)), 1)),
        ("a=b=2", 0, NGrams(1, (("a=b", 2),))),
    ],
)  # fmt: skip
def test_what_options_say(ngram, skips, expected):
    found = parse(ngram, skips)
    assert found == expected
    assert of_settings(found.settings()) == found


def test_no_ngrams_leave_no_settings():
    assert parse(1).settings() == {}
    assert of_settings({"bits": 18}) == NGrams()


@pytest.mark.parametrize(
    ("ngram", "skips", "message"),
    [
        (0, 0, "ngram=0"), (-1, 0, "ngram=-1"), (2.0, 0, "ngram=2.0"), (True, 0, "ngram=True"), ("", 0, "ngram=''"),
        (None, 0, "ngram=None"), ("text", 0, "ngram='text'"), ("text=1", 0, "ngram='text=1'"), ("=2", 0, "ngram='=2'"),
        ("a=2,a=3", 0, "once"), ("a|b=2", 0, "ngram="), ("a b=2", 0, "ngram="), ("2,a=3", 0, "ngram="),
        (2, -1, "skips=-1"), (2, 1.5, "skips=1.5"), (2, "x", "skips='x'"), (1, 1, "set ngram"), (9, 9, "at most 256"),
        (10**9, 0, "at most 256"), (2, 10**9, "at most 256"),
    ],
)  # fmt: skip
def test_refusals(ngram, skips, message):
    with pytest.raises(OptionError, match=message):
        parse(ngram, skips)


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
@pytest.mark.parametrize("skips", [0, 1, 3])
def test_patterns_are_all_choices_of_places(longest, skips):
    """Of n places, the first one being 0, the last one at most n − 1 + skips; short patterns first."""
    expected = [
        (0, *rest)
        for n in range(2, longest + 1)
        for rest in combinations(range(1, n + skips), n - 1)
    ]  # fmt: skip
    found = NGrams(longest, (), skips).patterns()
    assert found == expected
    assert len(found) == count_patterns(longest, skips)


def test_namespaces_that_never_occur():
    wanted = parse("text=2,title=3")
    assert wanted.unseen({"text", "title", "other"}) is None
    assert "'title'" in wanted.unseen({"text"})
    assert "none with a name" in wanted.unseen(frozenset())
