"""Options of a search for α: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from lineal.errors import OptionError, unknown_value
from lineal.linear.search.names import names
from lineal.system.options import option

if TYPE_CHECKING:
    import numpy as np

#: How the one α is chosen.
SELECT = ("best", "one_standard_error", "smallest")

#: How much worse than the best the smallest model may score, unless told.
WITHIN = 0.01

#: How the strengths to try are found.
SEARCH = ("path", "quick")


@dataclass(frozen=True)
class PathOptions:
    """How a search for α is done: the path, the folds, the measure, and the rule of selection."""

    alphas: str | list[float] | None = option(  # noqa: RUF009
        None, "strengths to try, in any order (on the command line separated by commas); None means n_alphas values"
    )
    n_alphas: int = option(20, "number of strengths, evenly spaced on a logarithmic scale; while the last one "
                           "has the best score, up to as many again follow")  # fmt: skip
    alpha_min_ratio: float | None = option(
        None, "smallest strength relative to the largest; None means 1e-6 for l2 and 1e-3 for other penalties"
    )
    folds: int = option(5, "number of folds; each is held out once and scored by a model fitted to the others")
    scoring: str | None = option(None, f"measure on held-out rows: {', '.join(names())}; None means accuracy")
    select: str = option("best", "best: the best mean score; one_standard_error: the largest strength that is as good "
                         "as that but for one standard error; smallest: the strength that uses the fewest features of "
                         "those that score at most `within` worse")  # fmt: skip
    within: float | None = option(None, "for select=smallest, how much worse than the best mean score is still good "
                                  f"enough, in the measure's own units; None means {WITHIN:g}")  # fmt: skip
    search: str = option("path", "path: all strengths; quick: halve the strength until the score no longer rises")

    def checked(self) -> PathOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        if self.select not in SELECT:
            raise unknown_value("select", self.select, SELECT)
        if self.search not in SEARCH:
            raise unknown_value("search", self.search, SEARCH)
        if self.scoring is not None and self.scoring not in names():
            raise unknown_value("scoring", self.scoring, names())
        _need("n_alphas", self.n_alphas, 1)
        _need("folds", self.folds, 2)
        ratio = self.alpha_min_ratio
        if ratio is not None and not (isinstance(ratio, Real) and 0.0 < ratio <= 1.0):
            raise OptionError(f"alpha_min_ratio={ratio!r} is not in (0, 1]")
        if self.search == "quick":
            given = [name for name, value in (("alphas", self.alphas), ("alpha_min_ratio", ratio)) if value is not None]
            if given:
                raise OptionError(f"search='quick' finds its own strengths: leave out {' and '.join(given)}")
        if self.within is not None:
            if isinstance(self.within, bool) or not (isinstance(self.within, Real) and 0.0 <= self.within < math.inf):
                raise OptionError(f"within={self.within!r} is not a finite number ≥ 0")
            if self.select != "smallest":
                raise OptionError(f"within={self.within!r} is for select='smallest' only")
        self.given_alphas()
        return self

    @property
    def is_open(self) -> bool:
        """Whether the range of the path was left to the search."""
        return self.alphas is None and self.alpha_min_ratio is None

    def given_alphas(self) -> np.ndarray | None:
        """Given strengths without repeats, from the largest to the smallest."""
        if self.alphas is None:
            return None
        import numpy as np

        given: Any = self.alphas.split(",") if isinstance(self.alphas, str) else self.alphas
        try:
            values = np.atleast_1d(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError):
            raise OptionError(f"alphas={self.alphas!r} are not numbers") from None
        if values.ndim != 1 or len(values) == 0:
            raise OptionError(f"alphas={self.alphas!r} is not a list of at least one number")
        for value in values.tolist():
            if not 0.0 <= value < math.inf:
                raise OptionError(f"alphas has {value!r}, which is not a finite number ≥ 0")
        return np.unique(values)[::-1].copy()


def _need(name: str, value: Any, least: int) -> None:
    try:
        fine = not isinstance(value, bool) and operator.index(value) >= least
    except TypeError:
        fine = False
    if not fine:
        raise OptionError(f"{name}={value!r} is not an integer ≥ {least}")
