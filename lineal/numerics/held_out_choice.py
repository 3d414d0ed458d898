"""Which of several fits is best on held-out rows: the least error, or what cannot be told from it with a lower loss."""

from __future__ import annotations

import numpy as np

#: Standard errors of the least error within which another error counts as equal. Fits of neighbouring iterations agree
#: on most rows, so that their errors differ by less than errors of unrelated fits would.
WITHIN = 0.5


def best_of(errors: list[float], losses: list[float], rows: float) -> int:
    """Position of the least loss among errors that are as good as the least one; `rows` is how many were held out."""
    found = np.array(errors)
    least = float(found.min())
    noise = np.sqrt(max(least * (1.0 - least), 0.0) / max(rows, 1.0))
    return int(np.argmin(np.where(found <= least + WITHIN * noise, np.nan_to_num(losses, nan=np.inf), np.inf)))


def effective_rows(weights: np.ndarray) -> float:
    """The number of rows of equal weights whose mean would have the same variance."""
    return float(weights.sum() ** 2 / (weights @ weights))
