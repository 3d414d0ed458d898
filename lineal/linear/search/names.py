"""Names of the measures, in a file without NumPy and Numba, which help texts do not need."""

from __future__ import annotations

#: Measures where less is better.
LESS_IS_BETTER = frozenset({"log_loss", "brier", "hamming_loss", "label_ranking_loss"})

#: Measures of rows with one label, with label sets, and those that need probabilities or the sets that thresholds make.
ONE_LABEL = ("accuracy", "log_loss", "brier", "macro_f1", "micro_f1", "roc_auc", "pr_auc")
LABEL_SETS = (
    "accuracy", "log_loss", "brier", "macro_f1", "micro_f1", "hamming_loss", "precision_at_1", "precision_at_3",
    "precision_at_5", "label_ranking_loss", "label_ranking_average_precision",
)  # fmt: skip
NEED_PROBABILITIES = ("log_loss", "brier")
NEED_THRESHOLD = ("accuracy", "macro_f1", "micro_f1", "hamming_loss")

#: The default where thresholds are chosen after the search, for one label per row and for label sets.
BEFORE_THRESHOLDS = ("roc_auc", "precision_at_1")


def names() -> list[str]:
    """Names of all measures."""
    return list(dict.fromkeys((*ONE_LABEL, *LABEL_SETS)))
