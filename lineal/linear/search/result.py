"""Result of a search, and the rule that selects one α."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lineal.linear.search.options import WITHIN
from lineal.problem.solution import Certificate


@dataclass(frozen=True)
class Search:
    """A path of α with its scores. Arrays have one entry (or row) per α, from the largest to the smallest.

    Attributes
    ----------
    alphas : the strengths that were tried.
    scores : (n_alphas, n_folds) of the rows held out; NaN where the search ended before.
    measure : what the scores measure.
    greater_is_better : whether a large score is a good one.
    nonzero : weights that are not zero, in the fits to all rows; -1 where the search ended before.
    nonzero_rows : features with a weight that is not zero, in the same fits; -1 where the search ended before.
    n_features : number of all features.
    alpha_max : the smallest α at which all weights are zero, at the best intercept, for the fit to all rows; None for
        l2, which has none, and for losses that are not smooth.
    certificates : those of the fits to all rows; None if the search ended before.
    seconds : time spent on each α, for all fits and scores.
    best : position of the best mean score.
    chosen : position that was taken.
    missed : number of fits that ended without meeting the tolerance.
    status : "complete", or why the search ended early: "max_time", "interrupted" or "stopped" (by a callback).
    path : weights and intercept at every α, if they were to be kept.
    edge : "smallest" or "largest" where the best score is at that end of a path that could go on; else None.
    """

    alphas: np.ndarray
    scores: np.ndarray
    measure: str
    greater_is_better: bool
    nonzero: np.ndarray
    certificates: list[Certificate | None]
    seconds: np.ndarray
    best: int
    chosen: int
    missed: int
    status: str
    nonzero_rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    n_features: int = 0
    alpha_max: float | None = None
    path: list[tuple[np.ndarray, np.ndarray] | None] | None = field(default=None, repr=False)
    edge: str | None = None

    @property
    def mean(self) -> np.ndarray:
        """Mean score of each α; NaN where some folds are missing."""
        return self.scores.mean(axis=1)

    @property
    def se(self) -> np.ndarray:
        """Standard error of the mean score of each α."""
        return standard_error(self.scores)

    @property
    def alpha(self) -> float:
        """The selected α."""
        return float(self.alphas[self.chosen])

    @property
    def percent_rows(self) -> np.ndarray:
        """Percentage of features with a non-zero weight; NaN if the search ended before."""
        return np.where(self.nonzero_rows >= 0, 100.0 * self.nonzero_rows / max(self.n_features, 1), np.nan)

    @property
    def warning(self) -> str | None:
        """What to say of a best score at an end of the path."""
        if self.edge is None:
            return None
        beyond, end = ("smaller", self.alphas[-1]) if self.edge == "smallest" else ("larger", self.alphas[0])
        return (
            f"the best {self.measure} is at the {self.edge} alpha of the path, {end:.3g}: {beyond} ones may be better; "
            "give alphas, or scale the columns"
        )

    @property
    def is_scored(self) -> bool:
        """Whether any α has scores of all folds; otherwise the first α was selected."""
        return bool(np.isfinite(self.mean).any())

    def rows(self) -> list[dict[str, Any]]:
        """One dict per α, in plain values."""
        return [
            {
                "alpha": float(self.alphas[i]),
                "score": float(self.mean[i]),
                "se": float(self.se[i]),
                "nonzero_rows": int(self.nonzero_rows[i]) if self.nonzero_rows[i] >= 0 else None,
                "percent_rows": float(self.percent_rows[i]),
                "nonzero": int(self.nonzero[i]) if self.nonzero[i] >= 0 else None,
                "gap": None if certificate is None else certificate.value,
                "seconds": float(self.seconds[i]),
            }
            for i, certificate in enumerate(self.certificates)
        ]


def standard_error(scores: np.ndarray) -> np.ndarray:
    """Standard error of the mean of each row; zero for a single column."""
    n_folds = scores.shape[1]
    return scores.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.zeros(len(scores))


def choose(
    scores: np.ndarray, greater_is_better: bool, select: str, sizes: Any = (), within: float = WITHIN
) -> tuple[int, int]:
    """Positions of the best mean score and of the selected one, for scores of α in descending order.

    Equal means go to the larger α. "one_standard_error" takes the largest α whose mean is within one standard error
    (that of the best) of the best mean: Breiman, Friedman, Olshen & Stone (1984), section 3.4.3. "smallest" takes the
    α of the smallest `sizes` (−1 where not known) whose mean is at most `within` worse than the best. Rows with NaN
    do not count; with no other, it is the first.
    """
    means = scores.mean(axis=1) * (1.0 if greater_is_better else -1.0)
    complete = np.isfinite(means)
    if not complete.any():
        return 0, 0
    means = np.where(complete, means, -np.inf)
    best = int(np.argmax(means))
    if select == "best":
        return best, best
    if select == "smallest":
        # Half an ulp of a mean must not decide whether 0.91 is within 0.01 of 0.92.
        good = means >= means[best] - within - 1e-12 * max(1.0, abs(means[best]))
        known = np.full(len(means), -1, np.int64)
        known[: len(sizes)] = sizes
        if not (good & (known >= 0)).any():
            return best, best
        return best, int(np.argmin(np.where(good & (known >= 0), known, np.iinfo(np.int64).max)))
    return best, int(np.argmax(means >= means[best] - standard_error(scores)[best]))
