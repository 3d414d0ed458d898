"""`OnlineModel`: what an online learner has learned, to predict with, to save, and to learn on from.

A file has only the slots that were touched: with m of them 8 + 12·m bytes for one score, 8 + 4·(2k + 1)·m for k.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from lineal.data.dataset import Schema
from lineal.online_options import OnlineOptions
from lineal.online_rows import rows_of
from lineal.predictor import Predictor, probabilities, score_columns
from lineal.solution import Certificate
from lineal.solvers.online import Learner
from lineal.solvers.parts.monomials import MAX_DEGREE
from lineal.solvers.parts.online_state import INVERSE, G, W
from lineal.solvers.parts.parents import Parents


@dataclass(frozen=True)
class OnlineModel(Predictor):
    """An online learner with the meaning of its columns.

    Attributes
    ----------
    learner : weights, sums and scales; `Learner.learn` goes on.
    classes : the labels, a column each but for two classes; none for numbers.
    n_columns : columns of X.
    is_number : whether scores are the answer.
    kinds : namespaces of the columns of X, where interactions name some.
    """

    learner: Learner
    classes: np.ndarray
    n_columns: int
    is_multilabel: bool = False
    is_number: bool = False
    kinds: np.ndarray | None = None
    thresholds: np.ndarray | None = None
    feature_names: list[str] | None = None
    schema: Schema | None = None
    options: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate | None = None
    status: str = "converged"

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

    def raw_scores(self, X: Any) -> np.ndarray:
        return self.learner.scores(rows_of(X, kinds=self.kinds))

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        found = probabilities("logistic", scores, not (self.is_binary or self.is_multilabel))
        return np.stack([1.0 - found, found], axis=1) if self.is_binary else found

    def labels_of(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, 0] if self.is_number else super().labels_of(scores)

    # --- what was learned

    def monomials(self, least: int = 1) -> list[tuple[tuple[int, ...], np.ndarray]]:
        """Columns of every monomial of at least this degree that was met, with its weights (k,), heaviest first.

        For adaptive expansion, which keeps their names. Where two share a slot, the first that came is named.
        """
        learner = self.learner
        slots = np.flatnonzero(learner.origin)
        weights = learner.weights()[slots].astype(np.float64)
        heavy = np.sqrt((weights**2).sum(axis=1)) * learner.scale_of_slots()[slots]
        found = []
        for place in np.argsort(-heavy, kind="stable"):
            monomial = learner.parents.monomial_of(int(learner.origin[slots[place]]))
            if len(monomial) >= least and heavy[place] > 0.0:
                found.append((monomial, weights[place]))
        return found

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
        from lineal.model_file import save

        save(self, path)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and tensors of this kind of model."""
        learner = self.learner
        table = learner.table.reshape(learner.slots + 1, -1)
        touched = np.flatnonzero(table.any(axis=1) | (False if learner.k == 1 else learner.inverses > 0.0))
        rows = table[touched]
        width = learner.width
        tensors = {
            "slots": touched.astype(np.int64),
            "weights": rows[:, [W]] if learner.k == 1 else rows[:, : learner.k],
            "squares": rows[:, [G]] if learner.k == 1 else rows[:, width : width + learner.k],
            "scales": rows[:, INVERSE] if learner.k == 1 else learner.inverses[touched],
            "totals": learner.totals,
            "clashes": learner.clashes,
        }
        if len(learner.origin):
            tensors["origin"] = learner.origin[np.minimum(touched, learner.slots - 1)]
        if len(learner.active):
            tensors["active"] = np.flatnonzero(learner.active).astype(np.int64)
        if self.kinds is not None:
            tensors["kinds"] = np.asarray(self.kinds, np.uint8)
        own = {
            "k": learner.k, "n_features": self.n_columns, "is_number": self.is_number, "examples": learner.examples,
            "entries": learner.entries, "epoch": learner.epoch, "passes": learner.passes,
            "n_examples": learner.n_examples, "parents": [list(monomial) for monomial in learner.parents.monomials],
            "learner": learner.options.to_json(),
        }  # fmt: skip
        return own, tensors

    @staticmethod
    def from_parts(own: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> OnlineModel:
        """Inverse of `to_parts`; a ValueError where the parts do not fit."""
        known = {entry.name for entry in fields(OnlineOptions)}
        if not set(own["learner"]) <= known:
            raise ValueError(f"unknown options {sorted(set(own['learner']) - known)}")
        options = OnlineOptions(**own["learner"]).checked()
        is_number = bool(own["is_number"])
        k = _whole(own["k"], 1)
        if not is_number and k != score_columns(common["classes"], common["is_multilabel"]) and len(common["classes"]):
            raise ValueError(f"{k} scores for {len(common['classes'])} classes")
        n_examples = own["n_examples"]
        n_examples = None if n_examples is None else _whole(n_examples, 0)
        learner = Learner(options, k, common["is_multilabel"], n_examples, is_number)
        learner.examples, learner.entries = _whole(own["examples"], 0), _whole(own["entries"], 0)
        learner.epoch, learner.passes = _whole(own["epoch"], 1), _whole(own["passes"], 0)
        learner.restore(Parents(_monomials(own["parents"])), tensors)
        return OnlineModel(
            learner, common.pop("classes"), _whole(own["n_features"], 0), common.pop("is_multilabel"), is_number,
            tensors.get("kinds"), **common,
        )  # fmt: skip


def _whole(value: Any, least: int) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} is no whole number from {least} up")
    return value


def _monomials(values: Any) -> list[tuple[int, ...]]:
    found = [tuple(_whole(column, 0) for column in monomial) for monomial in values]
    if any(not 0 < len(one) < MAX_DEGREE or list(one) != sorted(one) or one[-1] >= 2**31 for one in found):
        raise ValueError("parents are no monomials")
    return found
