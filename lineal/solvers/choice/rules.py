"""Which solvers are probably the fastest for an objective, by what is known without a pass over the rows.

The thresholds are from `python -m benchmarks.auto` and docs/benchmarks.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lineal.engine.local import LocalEngine

#: Largest number of features for which a d × d Hessian is cheap.
FEW_FEATURES = 600

#: Largest mean of q = ‖x‖²/(αn) for which dual coordinate descent is chosen if it cannot be left later. q is how much
#: an update of the dual variable of a row changes its own score; if it is large, the updates of different rows may undo
#: each other.
LARGEST_Q = 50.0

#: Smallest tolerance for which dual coordinate descent is chosen: it converges only linearly.
TIGHT = 1e-8


class Suggestion(NamedTuple):
    """A solver, and why it should be the fastest."""

    solver: str
    why: str


def by_speed(objective: Any, tol: float, can_change: bool) -> list[Suggestion]:
    """Solvers in the order of their speed; `can_change` says whether another one can take over from the first one.

    Dual coordinate descent is fastest on sparse rows with many features, unless the tolerance is very small. On long
    rows with a weak penalty it may turn out to be slow; its first passes are then a good start for the next solver.
    With few features, a pass over the rows is expensive compared to the Hessian, and losses with kinks are left to the
    method of multipliers if the features are far from unit scale. For dense rows, methods that use BLAS
    are fastest. For rows in files, the number of passes over the file decides, and dual coordinate descent needs 1.4
    to 4 times fewer than L-BFGS where this rule chooses it.
    """
    from lineal.solvers.newton import sample_size

    loss, regulariser, engine = objective.loss, objective.regulariser, objective.engine
    penalty, is_sparse, d = regulariser.penalty, not engine.is_dense, engine.shape[1]
    is_few = d <= FEW_FEATURES if is_sparse else d <= FEW_FEATURES // 4
    if not loss.is_smooth:
        why = f"the loss {loss.name} is not smooth"
        several = [Suggestion(name, why) for name in ("multipliers", "admm")]
        if not penalty.is_smooth:
            return several
        if is_few and not _is_small_q(objective):
            return [Suggestion("multipliers", f"{why}, and few features are far from unit scale"), *several[1:]]
        return [Suggestion("dual_cd", why), *several]
    if not penalty.is_smooth:
        return [Suggestion(name, f"the penalty {penalty.name} selects features") for name in SPARSE]
    if sample_size.is_worthwhile(objective):
        why = f"dense rows, many more than the {engine.n_columns * d} weights"
        return [Suggestion(name, why) for name in ("newton", "lbfgs")]
    if is_few and not loss.is_direct and engine.n_columns * d <= 64 * FEW_FEATURES:
        return [Suggestion(name, f"{d} features are few enough for their Hessian") for name in ("newton", "lbfgs")]
    primal = "newton" if is_sparse and engine.n_columns == 1 and not loss.is_direct else "lbfgs"
    kind = "sparse rows" if is_sparse else "dense rows"
    if is_sparse and tol >= TIGHT and bool((regulariser.strengths > 0.0).all()):
        if can_change or _is_small_q(objective):
            return [Suggestion("dual_cd", f"sparse rows with {d} features"), Suggestion("lbfgs", "")]
        return [Suggestion(primal, f"q = |x|^2/(alpha n) is above {LARGEST_Q:g} on average")]
    return [Suggestion(primal, f"{kind} with {d} features")]


#: Solvers for penalties that set weights to zero.
SPARSE = ("block_cd", "sparsa", "fista")


def _is_small_q(objective: Any) -> bool:
    """Whether the mean of q is small enough for dual coordinate descent."""
    limit = objective.engine.shape[0] * float(objective.regulariser.strengths.min(initial=math.inf))
    return _mean_square(objective) <= LARGEST_Q * limit


def _mean_square(objective: Any) -> float:
    """Weighted mean of the squared norms of the rows, without a pass over rows elsewhere that nobody needs later."""
    if objective.fit_intercept and not isinstance(objective.engine, LocalEngine):
        return float(objective.moments[1].sum())  # all solvers need the moments
    return float(objective.mean_square)
