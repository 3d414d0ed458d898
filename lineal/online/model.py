"""`OnlineModel`: the state of an online learner, to predict with, to save, and to continue learning.

A file has only the slots in use: m of them take 8 + 12·m bytes for one score, 8 + 4·(2k + 1)·m for k scores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal.data.dataset import Dataset
from lineal.data.join import join
from lineal.data.options import ReadOptions
from lineal.design.matrix import summed
from lineal.errors import DataError
from lineal.models.predictor import CHUNK_ROWS, Predictor, score_columns
from lineal.numerics.links import probabilities
from lineal.online import interactions
from lineal.online.learner import Learner
from lineal.online.monomials import MAX_DEGREE
from lineal.online.options import TUNE, OnlineOptions
from lineal.online.parents import Parents
from lineal.online.rows import rows_of
from lineal.online.state import ENTRIES, EXAMPLES


class KindedRows(NamedTuple):
    """Rows with the namespaces of their entries."""

    X: Any
    kinds: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.X.shape


@dataclass(frozen=True)
class OnlineModel(Predictor):
    """An online learner with the meaning of its columns.

    Attributes
    ----------
    learner : weights, sums and scales; `Learner.learn` goes on learning.
    classes : the labels, one score each (one score in all for two classes); none for numbers.
    n_columns : columns of X.
    is_number : whether scores are the predictions: a regression.
    kinds : namespaces of the columns of X, where interactions name some.
    """

    learner: Learner
    classes: np.ndarray
    n_columns: int
    is_multilabel: bool = False
    is_number: bool = False
    kinds: np.ndarray | None = None
    thresholds: np.ndarray | None = None
    status: str = field(default="one pass", kw_only=True)

    kind = "online"

    @property
    def n_features(self) -> int:
        return self.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return str(self.learner.options.loss)

    @property
    def has_probabilities(self) -> bool:
        return self.loss == "logistic" and not self.is_number

    @property
    def why_no_probabilities(self) -> str:
        return f"loss {self.loss!r} gives scores, not probabilities: use loss 'logistic'"

    @property
    def namespaces(self) -> list[str]:
        """Namespaces that the interactions use."""
        given = self.learner.options.interactions
        return [] if given is None else interactions.names_of(interactions.parse(given))

    def read_blocks(self, path: Any, labels: bool = False, **reading: Any) -> Iterator[Dataset]:
        """The rows of a file, with the namespaces of their entries where interactions need them."""
        if not self.namespaces:
            return super().read_blocks(path, labels, **reading)
        return self._stream(path, labels=labels, **reading)

    def read_labelled(self, path: Any, **reading: Any) -> Dataset:
        """All rows of a file with their labels, and the namespaces of their entries where those matter."""
        if not self.namespaces:
            return super().read_labelled(path, **reading)
        blocks = [replace(block, weights=None) for block in self._stream(path, **reading)]
        return join(blocks, [str(path)] * len(blocks))

    def _stream(self, path: Any, **reading: Any) -> Iterator[Dataset]:
        from lineal.data.stream import stream

        return stream(path, ReadOptions(**reading), self.schema, namespaces=self.namespaces)

    def batches_of(self, block: Dataset) -> Iterator[Any]:
        if block.kinds is None:
            yield from self.batches(block.X)
            return
        for first in range(0, max(len(block), 1), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            begin, end = block.X.indptr[[first, min(first + CHUNK_ROWS, len(block))]]
            yield KindedRows(block.X[rows], block.kinds[begin:end])

    def raw_scores(self, X: Any) -> np.ndarray:
        if isinstance(X, KindedRows):
            return self.learner.scores(rows_of(X.X, kinds=X.kinds))
        if self.namespaces and self.kinds is None:
            raise DataError("the model multiplies namespaces, which a matrix does not have: predict a file")
        if self.learner.options.expansion is not None and sparse.issparse(X):
            X = summed(X)
        return self.learner.scores(rows_of(X, column_kinds=self.kinds))

    def summary(self) -> dict[str, Any]:
        """Facts about this kind of model, as plain values."""
        learner = self.learner
        clashes, met = learner.products.clashes.tolist()
        used = int(np.count_nonzero(learner.table.inverse_scales()[:-1]))
        found: dict[str, Any] = {
            "loss": self.loss, "examples": learner.examples, "slots": learner.table.slots, "slots_used": used,
        }  # fmt: skip
        if learner.options.expansion == "adaptive":
            found |= {"parents": len(learner.parents), "share_of_collisions": clashes / max(met, 1)}
        elif self._is_hashed:
            found["share_of_collisions"] = used / learner.table.slots
        return found

    @property
    def _is_hashed(self) -> bool:
        """Whether features or their products are hashed to slots.

        A hashed feature collides with probability (slots in use) / (all slots), which estimates the share of
        collisions.
        """
        if self.learner.options.expansion is not None:
            return True
        kind = None if self.schema is None else self.schema.format
        return kind == "vw" or (kind == "table" and self.feature_names is None)

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        found = probabilities("logistic", scores, not (self.is_binary or self.is_multilabel))
        return np.stack([1.0 - found, found], axis=1) if self.is_binary else found

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, 0] if self.is_number else super().labels_of(scores)

    # --- what was learned

    def monomials(self, least: int = 1) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Columns and weights (k,) of all monomials of at least this degree, sorted by decreasing weight.

        For adaptive expansion, which keeps their names. Where two monomials share a slot, the first one is named.
        """
        learner = self.learner
        slots = np.flatnonzero(learner.products.origin)
        weights = learner.weights(slots).astype(np.float64)
        heavy = np.sqrt((weights**2).sum(axis=1)) * learner.table.scales(slots)
        found = []
        for place in np.argsort(-heavy, kind="stable"):
            monomial = learner.parents.monomial_of(int(learner.products.origin[slots[place]]))
            if len(monomial) >= least and heavy[place] > 0.0:
                found.append((monomial, weights[place]))
        return found

    def heaviest(self, top: int | None) -> list[dict[str, Any]]:
        """For each class (the second of two, or the number) the features and monomials with the largest weights.

        Features are named after columns, where columns have names; products have names with adaptive expansion only.
        """
        learner = self.learner
        used = np.flatnonzero(learner.table.inverse_scales()[:-1])  # few, if there are many bits
        weights = learner.weights(used).astype(np.float64)
        scaled = np.abs(weights) * learner.table.scales(used)[:, None]
        labels = ["number"] if self.is_number else self.classes.tolist()
        labels = labels[1:] if self.is_binary else labels
        found = []
        for column, label in enumerate(labels):
            places = np.flatnonzero(scaled[:, column])
            places = places[np.argsort(-scaled[places, column], kind="stable")][:top]
            named = [
                {"name": self._slot_name(int(used[place])), "weight": float(weights[place, column])} for place in places
            ]
            found.append({"class": label, "features": named})
        return found

    def _slot_name(self, slot: int) -> str:
        learner = self.learner
        if len(learner.products.origin):
            return self.name_of(learner.parents.monomial_of(int(learner.products.origin[slot])))
        has_products = learner.options.expansion is not None
        if self.feature_names is not None and not has_products and slot < len(self.feature_names):
            return " or ".join(self.feature_names[slot :: learner.table.slots])  # columns may share a weight
        return f"slot {slot}" if has_products else f"column {slot}"

    def name_of(self, monomial: tuple[int, ...]) -> str:
        """Names (or numbers) of the columns, joined by "*"; powers as "^"."""
        parts = []
        for column in dict.fromkeys(monomial):
            name = str(column) if self.feature_names is None else self.feature_names[column]
            power = monomial.count(column)
            parts.append(name if power == 1 else f"{name}^{power}")
        return "*".join(parts)

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `lineal.load` reads."""
        from lineal.models.file import save

        save(self, path)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and tensors of this kind of model."""
        learner = self.learner
        tensors = learner.tensors()
        if self.kinds is not None:
            tensors["kinds"] = np.asarray(self.kinds, np.uint8)
        own = {
            "k": learner.k, "n_features": self.n_columns, "is_number": self.is_number, "examples": learner.examples,
            "entries": learner.entries, "epoch": learner.products.epoch, "passes": learner.passes,
            "n_examples": learner.products.n_examples,
            "parents_are_final": learner.products.is_final,
            "parents": [list(monomial) for monomial in learner.parents.monomials], "learner": learner.options.to_json(),
        }  # fmt: skip
        return own, tensors

    @staticmethod
    def from_parts(own: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> OnlineModel:
        """Inverse of `to_parts`; raises a ValueError if the parts do not fit."""
        known = {entry.name for entry in fields(OnlineOptions)}
        if not set(own["learner"]) <= known:
            raise ValueError(f"unknown options {sorted(set(own['learner']) - known)}")
        options = OnlineOptions(**own["learner"]).checked()
        is_number = bool(own["is_number"])
        k = _whole(own["k"], 1)
        if not is_number and k != score_columns(common["classes"], common["is_multilabel"]) and len(common["classes"]):
            raise ValueError(f"{k} scores for {len(common['classes'])} classes")
        if is_number and k != 1:
            raise ValueError(f"{k} scores for one number")
        if options.loss is None or options.rate == TUNE:
            raise ValueError("loss and rate are not those of a learner")
        n_examples = own["n_examples"]
        n_examples = None if n_examples is None else _whole(n_examples, 0)
        learner = Learner(options, k, common["is_multilabel"], n_examples, is_number)
        learner.counts[EXAMPLES], learner.counts[ENTRIES] = _whole(own["examples"], 0), _whole(own["entries"], 0)
        learner.products.epoch, learner.passes = _whole(own["epoch"], 1), _whole(own["passes"], 0)
        learner.products.is_final = own.get("parents_are_final", False) is True  # older files do not have it
        width = _whole(own["n_features"], 0)
        learner.restore_tensors(Parents(_monomials(own["parents"], width)), tensors, width)
        model = OnlineModel(
            learner, common.pop("classes"), width, common.pop("is_multilabel"), is_number, tensors.get("kinds"),
            **common,
        )  # fmt: skip
        kinds = model.kinds
        if kinds is not None and not (
            kinds.shape == (width,) and kinds.dtype == np.uint8 and kinds.max(initial=0) <= len(model.namespaces)
        ):
            raise ValueError("kinds do not fit the namespaces")
        return model


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < 1 << 63:
        raise ValueError(f"{value!r} is not an integer ≥ {least}")
    return value


def _monomials(values: Any, width: int) -> list[tuple[int, ...]]:
    found = [tuple(_whole(column, 0) for column in monomial) for monomial in values]
    if any(not 0 < len(one) < MAX_DEGREE or list(one) != sorted(one) or one[-1] >= width for one in found):
        raise ValueError("parents are not monomials")
    if len(set(found)) < len(found):  # equal ones would have the same place in the hash table
        raise ValueError("parents are not different monomials")
    return found
