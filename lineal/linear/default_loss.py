"""The loss of a linear model of a table for which none was chosen.

Columns of numbers and categories: logistic regression, which ranks rows better there than the squared hinge does at the
same strength of the penalty, and has probabilities. Words of texts, of which there are more than rows: the default of
linear models, which needs no weaker penalty for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.inputs import checked_labels
from lineal.data.schema import Schema
from lineal.linear.options import TrainOptions


def loss_of_table(schema: Schema, y: Any) -> str:
    """The loss for a table that was encoded as the schema says: logistic, or softmax for more than two classes."""
    if any(column["kind"] == "text" for column in schema.settings["columns"]):
        return TrainOptions().loss
    labels = checked_labels(y)
    if np.ndim(labels) == 2 and labels.shape[1] == 1 and not sparse.issparse(labels):
        labels = labels[:, 0]  # a column is a list of labels
    return "softmax" if np.ndim(labels) == 1 and _has_more_than_two(np.asarray(labels)) else "logistic"


def _has_more_than_two(labels: np.ndarray) -> bool:
    """Whether there are more than two different labels, without sorting them."""
    others = labels[labels != labels[:1]]
    return bool((others != others[:1]).any())
