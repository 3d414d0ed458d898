"""The preconditioner of Newton's linear systems: the metric of `precondition.py` with a curvature for each column.

    M_r = c_r·X̃'SX̃ + αF,   c_r = Σ_i s_i ∂²ℓ_i/∂z_r²

with X̃'SX̃ whole where features are few enough, else (nearly) its diagonal. It is made once; only c_r follows the run.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lineal.solvers.parts.centred import Centred
from lineal.solvers.parts.precondition import Diagonal, Gram, metric


class CurvatureMetric:
    """Solves with M for the mean curvatures of the moment."""

    def __init__(self, centred: Centred) -> None:
        self.metric = metric(centred)

    def solver(self, curvature: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """M⁻¹ for columns of these mean curvatures."""
        base = self.metric
        curvature = np.maximum(curvature, 1e-12 * max(float(curvature.max(initial=0.0)), 1e-300))
        if isinstance(base, Gram):
            scale = 1.0 / (curvature * base.values[:, None] + 1.0)
            return lambda R: (base.vectors @ (scale * (base.vectors.T @ R.astype(np.float64)))).astype(R.dtype)
        assert isinstance(base, Diagonal)
        inverse = 1.0 / (curvature * base.squares[:, None] + base.ridge[:, None])
        return lambda R: R * inverse.astype(R.dtype)
