"""Residuals y − ŷ of predictions for a block of rows, where y has a one for each label of a row."""

from __future__ import annotations

import numpy as np

from lineal.engine.base import Block
from lineal.problem.targets import zeros_and_ones


def labels_of(block: Block, k: int, dtype: np.dtype) -> np.ndarray:
    """Labels as a dense (rows, k) array."""
    return zeros_and_ones(block.targets, block.n, k, dtype)


def residuals(block: Block, predictions: np.ndarray) -> np.ndarray:
    """Residuals y − ŷ of all rows, in the precision of the predictions."""
    left = labels_of(block, predictions.shape[1], predictions.dtype)
    left -= predictions
    return left


def squared_error(block: Block, predictions: np.ndarray) -> float:
    """Weighted squared error Σ s‖y − ŷ‖²."""
    left = residuals(block, predictions)
    return float(block.weights @ np.einsum("ir,ir->i", left, left, dtype=np.float64))
