"""Rows held out of training, drawn with a seed: the same rows on every platform."""

from __future__ import annotations

import numpy as np

from lineal.core.rng import generator, shuffle
from lineal.data.dataset import Dataset
from lineal.errors import DataError


def split(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """The rows to train on and the rows held out: about `share` of every class, which keeps a row to train on."""
    order = np.arange(len(data))
    shuffle(generator(seed), order)
    classes = np.zeros(len(data), np.intp) if data.is_multilabel else np.unique(data.y, return_inverse=True)[1]
    order = order[np.argsort(classes[order], kind="stable")]
    # In this order, every (1/share)-th row is held out, so that each class gives its share, up to one row.
    steps = np.floor(np.arange(len(data) + 1) * share)
    held = steps[1:] > steps[:-1]
    held[np.flatnonzero(np.diff(classes[order], prepend=-1))] = False
    if not held.any():
        raise DataError(f"holding out {share:g} of {len(data)} rows leaves no row to measure on")
    return data.take(np.sort(order[~held])), data.take(np.sort(order[held]))
