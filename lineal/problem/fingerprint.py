"""Facts by which a fit is recognised: its options, and numbers that change when its rows do.

The numbers are sums over rows, so any engine can compute them. They are compared with a tolerance, because a fit can
continue on another machine, whose processor rounds sums differently.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineal import losses
from lineal.design.products import matmul
from lineal.engine.base import Block, Engine
from lineal.problem import row_sums, steps
from lineal.problem.objective import Objective

#: Facts by name: JSON values, or lists of numbers that are equal up to `TOLERANCE`.
Fingerprint = dict[str, Any]

#: Largest difference of numbers about the rows, which are of size one.
TOLERANCE = 1e-7

#: Number of labels whose weights are stored one by one.
MAX_LABELS = 100

#: Two irrational numbers, whose multiples are spread evenly over any interval.
GOLDEN, SILVER = 0.6180339887498949, 0.41421356237309503


def differences(theirs: Fingerprint, ours: Fingerprint) -> list[str]:
    """What differs between two fits, as texts."""
    texts = []
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        there, here = theirs.get(name), ours.get(name)
        if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
            if not np.allclose(there, here, rtol=TOLERANCE, atol=TOLERANCE):
                texts.append(f"the {name} differ")
        elif there != here:
            texts.append(f"the {name} differ" if isinstance(there, list) else f"{name} is {there} there, {here} here")
    return texts


def of_objective(
    objective: Objective, solver: str, options: Any, seed: int, is_conditioned: bool = False
) -> Fingerprint:
    """Facts about the minimisation of an objective."""
    regulariser = objective.regulariser
    return {
        "solver": solver,
        **({} if options is None else {name: _plain(value) for name, value in dataclasses.asdict(options).items()}),
        "random_state": int(seed),
        **_of_part("loss", objective.loss),
        **_of_part("penalty", regulariser.penalty),
        "alpha": regulariser.alpha,
        "penalty_factors": _hash(regulariser.factors),
        "feature_groups": _hash(regulariser.groups.features, regulariser.groups.offsets),
        "centre of the penalty": None if regulariser.centre is None else _hash(regulariser.centre),
        "fit_intercept": bool(objective.fit_intercept),
        "conditioning of columns": is_conditioned,
        **of_rows(objective.engine, objective.moments[1][:, 0]),
    }


def of_rows(engine: Engine, squares: np.ndarray | None = None) -> Fingerprint:
    """Facts about rows; `squares` are the weighted mean squares of the columns, if they are known."""
    (n, d), k = engine.shape, engine.n_columns
    if squares is None:
        squares = engine.sum(steps.moments)[0][:, 1]
    sizes = np.sqrt(squares)
    mixture = np.divide(_spread(np.arange(d), GOLDEN), sizes, out=np.zeros(d), where=sizes > 0.0)
    (sums,) = engine.sum(RowNumbers(), mixture[:, None], _spread(np.arange(k), SILVER))
    logs = np.log(sizes, out=np.zeros(d), where=sizes > 0.0)
    features = max(float(sums[1]) ** 0.5, np.finfo(np.float64).tiny)
    (labels,) = engine.sum(steps.LabelWeights(k))
    return {
        "number of rows": n,
        "number of columns": d,
        "number of score columns": k,
        "data type": np.dtype(engine.dtype).name,
        "labels": [float(weight) for weight in labels] if k <= MAX_LABELS else _rounded_sums(labels),
        "sizes of the columns": [float(logs @ _spread(np.arange(d), ratio)) / max(d, 1) for ratio in (GOLDEN, SILVER)],
        "features": [float(sums[0] / features), float(np.log(features)), *map(float, sums[2:4] / features)],
        "order of the labels": [float(sums[4])],
        "weights of the rows": [float(sums[5])],
        "base scores": [float(sums[6])],
    }


def _rounded_sums(labels: np.ndarray) -> list[float]:
    return [float(labels @ _spread(np.arange(len(labels)), ratio)) for ratio in (GOLDEN, SILVER)]


@dataclass(frozen=True)
class RowNumbers:
    """Step: sums over rows of mixtures z of their features and g of their labels, which are given.

    These are Σ s·z, Σ s·z², Σ s·g·z, Σ s·r·z, Σ s·r·g, Σ s·r and Σ s·r·o, where r depends on the number of the row.
    """

    def __call__(self, block: Block, features: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray]:
        s, r = block.weights, _spread(block.first + np.arange(block.n), GOLDEN)
        z = matmul(block.X, features, threads=block.threads, dtype=np.float64)[:, 0]
        signs = np.empty((block.n, len(labels)))
        row_sums.gradients(losses.get("squared"), block, np.ones(block.n), np.zeros_like(signs), signs)
        g, o = signs @ labels, 0.0 if block.offsets is None else block.offsets @ labels
        return (np.array([s @ z, s @ z**2, s @ (g * z), s @ (r * z), s @ (r * g), s @ r, float(np.sum(s * r * o))]),)


def _spread(numbers: np.ndarray, ratio: float) -> np.ndarray:
    """Numbers between ½ and 1½ that look random."""
    return np.modf((numbers + 1.0) * ratio)[0] + 0.5


def _of_part(kind: str, part: Any) -> Fingerprint:
    """Name and parameters of a loss or a penalty."""
    values = part._asdict() if isinstance(part, tuple) else {}  # type: ignore[attr-defined]
    own = {f"{name} of the {kind}": _plain(value) for name, value in values.items() if name != "tag"}
    return {kind: part.name, **own}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.item() if isinstance(value, np.generic) else repr(value)


def _hash(*arrays: np.ndarray) -> str:
    """Digest of arrays that the user gave."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
