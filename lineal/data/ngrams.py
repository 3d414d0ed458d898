"""Word n-grams: what the options `ngram` and `skips` say, and the patterns of places that they stand for.

An n-gram joins n features that follow each other in a namespace. With `skips` k, up to k features between its first and
its last one are left out. A pattern is the places of the features of an n-gram, counted from its first one: (0, 1) for
bigrams, (0, 2) for bigrams that skip one feature. Patterns are in the order in which Vowpal Wabbit makes them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping, Set
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

from lineal.errors import OptionError

if TYPE_CHECKING:
    from lineal.data.options import ReadOptions

#: At most this many n-grams can begin at one feature.
MAX_PATTERNS = 256

#: What cannot be in the name of a namespace of VW text.
_NOT_IN_NAMES = re.compile(r"[\s|:]")


class NGrams(NamedTuple):
    """The n-grams to make: n everywhere, or n by namespace and none in the others; 1 stands for no n-grams."""

    everywhere: int = 1
    by_name: tuple[tuple[str, int], ...] = ()
    skips: int = 0

    @property
    def longest(self) -> int:
        """The largest n."""
        return max([self.everywhere, *(n for _, n in self.by_name)])

    def options(self) -> dict[str, Any]:
        """The values of the two options, always written in the same way."""
        names = ",".join(f"{name}={n}" for name, n in self.by_name)
        return {"ngram": names or self.everywhere, "skips": self.skips}

    def settings(self) -> dict[str, Any]:
        """The settings of a schema; none without n-grams."""
        return {} if self.longest == 1 else self.options()

    def patterns(self) -> list[tuple[int, ...]]:
        """The patterns of all n-grams: those of two features first, then those of three, and so on."""
        return [places for n in range(2, self.longest + 1) for places in _patterns(n, self.skips)]

    def unseen(self, seen: Set[str]) -> str | None:
        """A warning if namespaces that should have n-grams are not among those seen, or None."""
        missing = [name for name, _ in self.by_name if name not in seen]
        if not missing:
            return None
        found = ", ".join(sorted(map(repr, seen))[:20]) or "none with a name"
        return f"ngram names the namespace {', '.join(map(repr, missing))}, but the text has {found}"


def parse(ngram: Any, skips: Any = 0) -> NGrams:
    """What the values of the two options say; raises an error that names the one that is not valid."""
    everywhere, by_name = _parse_ngram(ngram)
    k = _whole(skips)
    if k is None or k < 0:
        raise OptionError(f"skips={skips!r} must be an integer of at least 0")
    found = NGrams(everywhere, by_name, k)
    if k > 0 and found.longest == 1:
        raise OptionError(f"skips={skips!r} is for n-grams: set ngram to 2 or more")
    count = count_patterns(found.longest, k)
    if count > MAX_PATTERNS:
        raise OptionError(
            f"ngram={ngram!r} with skips={k} makes {count} n-grams per feature, and at most {MAX_PATTERNS} are "
            "possible: use a smaller ngram or fewer skips"
        )
    return found


def of_options(options: ReadOptions) -> NGrams:
    """The n-grams that the options of a reader ask for."""
    return parse(options.ngram, options.skips)


def of_settings(settings: Mapping[str, Any]) -> NGrams:
    """The n-grams with which the files of a schema were read."""
    return parse(settings.get("ngram", 1), settings.get("skips", 0))


def count_patterns(longest: int, skips: int) -> int:
    """The number of patterns of 2 … `longest` features: n − 1 gaps whose sum is at most `skips`."""
    return comb(skips + longest, longest - 1) - 1  # Σ comb(skips + n − 1, n − 1) over n = 1 … longest, less n = 1


def _parse_ngram(ngram: Any) -> tuple[int, tuple[tuple[str, int], ...]]:
    n = _whole(ngram)
    if n is not None and n >= 1:
        return n, ()
    parts = [part.strip().rpartition("=") for part in ngram.split(",")] if isinstance(ngram, str) else []
    by_name = {name.strip(): _whole(number) or 0 for name, _, number in parts}
    if not parts or len(by_name) < len(parts) or min(by_name.values()) < 2 or not all(map(_is_name, by_name)):
        raise OptionError(
            f"ngram={ngram!r} is neither an integer of at least 1 nor namespaces with an integer of at least 2, each "
            "named once, such as 'text=2,title=3'"
        )
    return 1, tuple(sorted(by_name.items()))


def _is_name(name: str) -> bool:
    return bool(name) and not _NOT_IN_NAMES.search(name)


def _whole(value: Any) -> int | None:
    """An integer, also from its digits; None for anything else."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\s*[0-9]{1,9}\s*", value) else None
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def _patterns(n: int, skips: int, first: int = 0) -> Iterator[tuple[int, ...]]:
    """The patterns of n features that leave out at most `skips`, in lexicographic order, from the place `first` on."""
    if n == 1:
        yield (first,)
        return
    for gap in range(skips + 1):
        for rest in _patterns(n - 1, skips - gap, first + 1 + gap):
            yield (first, *rest)
