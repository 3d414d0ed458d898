"""Model of stagewise regression: a generator with its seeds, and the weights of every stage."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lineal.features.contracts import KnowsWidth, PreparedForColumns
from lineal.features.rows import in_precision
from lineal.models.predictor import Predictor, score_columns
from lineal.numerics.links import probabilities, sigmoid
from lineal.solvers.stagewise import UPDATES
from lineal.solvers.stagewise.features import Stage, StageFeatures, maker_of, remade_once, through
from lineal.solvers.stagewise.running import after_stages


@dataclass(frozen=True)
class StagewiseModel(Predictor):
    """Stages of generated features, which are made again for the rows to predict.

    Attributes
    ----------
    generator : prepared, of `lineal.features` or of your own.
    members : lists of stages; more than one where models over disjoint features are averaged.
    start : (k,) predictions or raw scores before the first stage.
    update : how stages were fitted: "linear", "calibrated" or "softmax".
    columns : d, of the rows that it takes.
    classes, is_multilabel, feature_names, schema, options, certificate, status : as for `Model`.

    Memory: (p + 1)·k numbers per stage and what the generator learnt. Predictions of m rows add CHUNK_BYTES of features
    and m·k numbers; of up to KEPT_STAGES stages, what makes their features (d·p numbers for dense random frequencies)
    stays in memory for the next call.
    """

    generator: Any
    members: list[list[Stage]]
    start: np.ndarray
    update: str
    classes: np.ndarray
    columns: int
    is_multilabel: bool = False
    _made: dict[tuple[int, int], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    kind = "stagewise"

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, without the batches, which are made again from seeds."""
        return {**self.__dict__, "_made": {}}

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the weights."""
        return self.start.dtype

    @property
    def n_blocks(self) -> int:
        """Number of stages of all members."""
        return sum(map(len, self.members))

    @property
    def n_generated(self) -> int:
        """Number of generated features of all stages."""
        extra = 3 * len(self.start) if self.update == "calibrated" else 0
        return sum(len(stage.weights) - extra for member in self.members for stage in member)

    @property
    def has_probabilities(self) -> bool:
        """Whether scores become probabilities: those of softmax stages do."""
        return self.update == "softmax"

    @property
    def why_no_probabilities(self) -> str:
        """Reason why the model has no probabilities, for messages."""
        return f"update {self.update!r} gives scores, not probabilities: train with update='softmax'"

    def summary(self) -> dict[str, Any]:
        """Facts about this kind of model, as plain values."""
        return {
            "update": self.update,
            "generator": repr(self.generator),
            "models": len(self.members),
            "blocks": self.n_blocks,
            "generated_features": self.n_generated,
        }

    def raw_scores(self, X: Any) -> np.ndarray:
        """Scores (n, k); if columns are independent, zero is the decision boundary."""
        total = self.running(X, self.members[0])
        for member in self.members[1:]:
            total += self.running(X, member)
        total /= len(self.members)
        is_independent = self.is_multilabel or total.shape[1] == 1
        return total - total.dtype.type(0.5) if is_independent and self.update != "softmax" else total

    def running(self, X: Any, member: list[Stage]) -> np.ndarray:
        """Predictions or raw scores of all rows after the stages of a member."""
        if not member:
            return np.tile(self.start, (X.shape[0], 1))
        X, maker = in_precision(X, self.dtype), maker_of(self.generator)
        fitted = ((StageFeatures.of(maker, s.number, s.size, self._made_by(maker, s), self.dtype), s) for s in member)
        return after_stages(through(self.generator, X), self.start, fitted, self.update)

    def _made_by(self, maker: Any, stage: Stage) -> Any:
        """Batch of features of a stage, kept for the next prediction."""
        made = remade_once(maker, stage, self._made)
        self._check_width(stage, made.width)
        return made

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities for these scores."""
        is_multiclass = not (self.is_binary or self.is_multilabel)
        P = probabilities("softmax", scores, is_multiclass)
        return np.stack([sigmoid(-scores.astype(np.float64)), P], axis=1) if self.is_binary else P

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file atomically."""
        from lineal.models.file import save

        save(self, path)

    # --- on disk

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and tensors that only this kind of model has; the weights of all stages are stacked."""
        from lineal.features.serial import pack, to_parts

        generator, tensors = to_parts(self.generator)
        stages = [stage for member in self.members for stage in member]
        k = len(self.start)
        tensors["start"] = self.start
        tensors["weights"] = np.concatenate([np.empty((0, k), self.dtype), *(stage.weights for stage in stages)])
        tensors["intercepts"] = np.stack([np.empty(k, self.dtype), *(stage.intercept for stage in stages)])[1:]
        blocks = [
            [stage.number, stage.size, len(stage.weights), pack(stage.state, tensors, f"block.{place}")]
            for place, stage in enumerate(stages)
        ]
        return {
            "generator": generator,
            "blocks": blocks,
            "members": [len(member) for member in self.members],
            "update": self.update,
            "n_features": self.n_features,
        }, tensors

    @staticmethod
    def from_parts(values: dict[str, Any], tensors: dict[str, np.ndarray], common: dict[str, Any]) -> StagewiseModel:
        """Inverse of `to_parts`; raises a ValueError if the parts do not fit."""
        from lineal.features.serial import from_parts, unpack

        if not all(isinstance(block, list) and len(block) == 4 for block in values["blocks"]):
            raise ValueError("a block has a number, a size, a width and a state")
        left = dict(tensors)
        start, W, b = (left.pop(name) for name in ("start", "weights", "intercepts"))
        blocks, counts = values["blocks"], values["members"]
        k = score_columns(common["classes"], common["is_multilabel"])
        if (
            start.shape != (k,)
            or W.ndim != 2
            or W.shape[1] != k
            or b.shape != (len(blocks), k)
            or len({array.dtype for array in (start, W, b)}) != 1
            or W.dtype not in (np.float32, np.float64)
            or not all(np.isfinite(array).all() for array in (start, W, b))
            or values["update"] not in UPDATES
            or not all(type(count) is int and count >= 0 for count in counts)
            or type(values["n_features"]) is not int
            or not counts
            or sum(counts) != len(blocks)
            or not all(type(one) is int and 0 <= one < 2**48 for block in blocks for one in block[:3])
            or sum(block[2] for block in blocks) != len(W)
            or len({tuple(block[:2]) for block in blocks}) != len(blocks)
        ):
            raise ValueError("weights, blocks and classes do not fit each other")
        ends = np.cumsum([block[2] for block in blocks]).tolist()
        stages = [
            Stage(number, size, unpack(state, left), W[end - width : end], b[place])
            for place, ((number, size, width, state), end) in enumerate(zip(blocks, ends))
        ]
        model = StagewiseModel(
            from_parts(values["generator"], left),
            [stages[end - count : end] for count, end in zip(counts, np.cumsum(counts).tolist())],
            start, values["update"], columns=values["n_features"], **common,
        )  # fmt: skip
        model.check_blocks()
        return model

    def check_blocks(self) -> None:
        """Raise a ValueError if the generator would not make as many features as there are weights.

        Only stages that hold their own features are made: no number in a file takes memory.
        """
        if isinstance(self.generator, PreparedForColumns) and self.generator.n_columns_ != self.n_features:
            raise ValueError("the generator takes another number of features")
        maker = maker_of(self.generator)
        for stage in (stage for member in self.members for stage in member):
            if stage.size < 1:
                raise ValueError(f"block {stage.number} has a size of {stage.size}")
            if stage.state:
                self._made_by(maker, stage)
            elif isinstance(maker, KnowsWidth):
                self._check_width(stage, maker.width_of(stage.number, stage.size))

    def _check_width(self, stage: Stage, width: int) -> None:
        extra = 3 * len(self.start) if self.update == "calibrated" else 0
        if width + extra != len(stage.weights):
            raise ValueError(f"block {stage.number} has weights for another number of features")
