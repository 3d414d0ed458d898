"""Gap-safe screening: a duality gap proves that some groups of weights are zero in every solution.

∇ℓ is L-Lipschitz, so the dual function is strongly concave. With a gap P − D, the best dual point is therefore within
√(2L(P − D)) of the one that gave D, in the norm √Σ s‖u‖². The correlation C_g of a group can change by at most that
radius times √Σ s‖x_g‖². If it stays below the threshold of the penalty even so, the group is zero. Ndiaye, Fercoq,
Gramfort & Salmon (2017).
"""

from __future__ import annotations

import math

import numpy as np

from lineal.problem.certificate import primal_and_bound
from lineal.problem.objective import Objective


def safe_zeros(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """Mask of the groups that are proven to be zero; none if the penalty is not a norm or the loss is not smooth.

    Memory: that of a certificate.
    """
    regulariser, k = objective.regulariser, objective.engine.n_columns
    lipschitz = objective.loss.lipschitz(k) if objective.loss.is_smooth else None
    nothing = np.zeros(regulariser.n_groups, bool)
    if lipschitz is None or not regulariser.penalty.is_norm or not np.all(regulariser.strengths > 0.0):
        return nothing
    W, b = objective.split(theta)
    primal, bound = primal_and_bound(objective, W, b.astype(np.float64))
    if bound.correlation is None or not math.isfinite(bound.value):
        return nothing
    radius = math.sqrt(2.0 * lipschitz * max(primal - bound.value, 0.0))
    sizes = regulariser.by_group(objective.moments[1][:, 0])
    members = regulariser.by_group(np.ones(regulariser.n_features)).astype(np.int64)
    factors = np.array([regulariser.penalty.dual_norm_factor(int(count) * k) for count in np.unique(members)])
    factors = factors[np.searchsorted(np.unique(members), members)]
    largest = bound.scale * regulariser.critical_strengths(bound.correlation) + factors * radius * np.sqrt(sizes)
    return largest < regulariser.strengths
