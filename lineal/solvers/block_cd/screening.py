"""Gap-safe screening: blocks of weights that are zero in every solution, proven by a duality gap.

The dual function is strongly concave, since ∇ℓ is L-Lipschitz: with a gap P − D at hand, the best dual point is within
√(2L(P − D)) of the one that gave D (in the norm √Σ s‖u‖²). The correlation C_g of a block can then not be farther from
the one known than that radius times √Σ s‖x_g‖², and where even so it stays below the penalty's threshold, the block is
zero. Ndiaye, Fercoq, Gramfort & Salmon (2017).
"""

from __future__ import annotations

import math

import numpy as np

from lineal.problem.certificate import primal_and_bound
from lineal.problem.objective import Objective


def safe_zeros(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """Mask of the blocks that are surely zero; nothing is sure where the penalty is no norm, or the loss not smooth.

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
    reach = bound.scale * regulariser.critical_strengths(bound.correlation) + factors * radius * np.sqrt(sizes)
    return reach < regulariser.strengths
