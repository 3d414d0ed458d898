"""A linear model whose members, models of parts of the rows, vote on every label (bagging; `solvers/averaging.py`)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lineal.linear.model import Model
from lineal.problem.solution import Members

#: Members of a model without any.
NOBODY = Members(np.empty((0, 0, 0)), np.empty((0, 0)))


@dataclass(frozen=True)
class VotingModel(Model):
    """A model that predicts what most of its members predict; `weights` and `intercept` are the mean of the members.

    Scores are shares of votes: of two classes and of label sets, those for minus those against. A tie goes to the
    prediction of the mean.

    Attributes
    ----------
    members : the models.

    Memory: (m + 1)·d·k numbers for m members.
    """

    members: Members = NOBODY

    kind = "voting"

    @staticmethod
    def of(mean: Model, members: Members) -> VotingModel:
        """The members with their mean."""
        known = {entry.name: getattr(mean, entry.name) for entry in fields(Model)}
        return VotingModel(**{**known, "members": members})

    @property
    def used_features(self) -> np.ndarray:
        """Numbers of the columns of X with a weight that is not zero in some member, ascending."""
        return np.flatnonzero(self.members.weights.any(axis=(0, 2)))

    @property
    def has_probabilities(self) -> bool:
        """Votes are no probabilities."""
        return False

    @property
    def why_no_probabilities(self) -> str:
        """Reason why the model has no probabilities, for messages."""
        return "shares of votes are no probabilities: train with combine='mean', or without solver 'averaging'"

    def summary(self) -> dict[str, Any]:
        """Facts about this kind of model, as plain values."""
        return {
            "loss": self.loss,
            "members": len(self.members.weights),
            "features_used": len(self.used_features),
            "certificate_of_the_mean": None if self.certificate is None else str(self.certificate),
        }

    def raw_scores(self, X: Any) -> np.ndarray:
        """Shares of votes (n, k); the mean has half a vote, which decides ties only."""
        mean = super().raw_scores(X)
        votes = 0.5 * self._votes(mean)
        for W, b in zip(*self.members, strict=True):
            votes += self._votes(X @ W + b)
        shares: np.ndarray = votes / (len(self.members.weights) + 0.5)
        return shares

    def _votes(self, scores: np.ndarray) -> np.ndarray:
        """The vote of a model for every row: ±1 where columns are separate labels, else one for the best column."""
        if self.is_multilabel or scores.shape[1] == 1:
            return np.where(scores > 0.0, 1.0, -1.0)
        votes = np.zeros(scores.shape)
        votes[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
        return votes

    def compact(self) -> tuple[VotingModel, np.ndarray]:
        """The same model of the features that it uses, and their columns in the X that this model takes."""
        columns = self.used_features
        names = None if self.feature_names is None else [self.feature_names[j] for j in columns.tolist()]
        schema = None if self.schema is None else self.schema.picked(columns)
        weights = np.ascontiguousarray(np.asarray(self.weights)[columns])
        members = self.members._replace(weights=np.ascontiguousarray(self.members.weights[:, columns]))
        return replace(self, weights=weights, members=members, feature_names=names, schema=schema), columns

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What only such models have, as JSON values and arrays (see `lineal.models.file`)."""
        own, tensors = super().to_parts()
        members = {"member_weights": self.members.weights, "member_intercepts": self.members.intercepts}
        return own, {**tensors, **members}

    @staticmethod
    def from_parts(own: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> VotingModel:
        """Inverse of `to_parts`; a ValueError says what does not fit."""
        rest = dict(tensors)
        members = Members(rest.pop("member_weights"), rest.pop("member_intercepts"))
        mean = Model.from_parts(own, rest, common)
        if mean.thresholds is not None:
            raise ValueError("votes are not compared with thresholds")
        m = len(members.weights)
        if members.weights.shape != (m, *mean.weights.shape) or members.intercepts.shape != (m, len(mean.intercept)):
            raise ValueError("members and their mean do not fit each other")
        if not all(part.dtype in (np.float32, np.float64) and np.isfinite(part).all() for part in members):
            raise ValueError("the weights of the members are no finite numbers")
        return VotingModel.of(mean, members)
