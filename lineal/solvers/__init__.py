"""Solvers: algorithms that minimise an `Objective` and return a `Solution`, one file or one folder per algorithm.

Lives here: each file or folder has a function `solve`, decorated with `lineal.problem.solver.solver`, except those in
`NOT_SOLVERS`. What only one algorithm uses is in its folder.
May import: `lineal.numerics`, `lineal.problem` and everything below.
To add a solver: add its file. Estimators and the command line then know it. CONTRIBUTING.md has an example.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, Any

from lineal.errors import OptionError
from lineal.system import memory

if TYPE_CHECKING:
    from lineal.design import Design
    from lineal.problem.solver import Solver
    from lineal.system.solver_options import SolverOptions

#: Files of this folder that are not solvers: algorithms that minimise no `Objective`, and the options of all solvers.
NOT_SOLVERS = ("calibrated", "stagewise", "options", "shard_fit", "shard_loop")


def names() -> list[str]:
    """Names of the solvers, read from the folder without importing them, so that help texts do not need Numba."""
    return [name for name in _files(*__path__) if name not in NOT_SOLVERS]


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders))


#: Solvers that fits usually import anyway; one of them can handle almost every loss and penalty.
_COMMON = ("lbfgs", "dual_cd", "block_cd")


def choose(name: str, loss: Any, penalty: Any) -> Solver:
    """The solver called `name`, or for "auto" the first one that can handle the loss and the penalty."""
    return _first_able([name] if name != "auto" else [*_COMMON, *names()], loss, penalty, None)


def pick(name: str, objective: Any, tol: float) -> Solver:
    """The solver called `name`, or for "auto" the one that is probably the fastest for these rows."""
    order = [name] if name != "auto" else [*_by_speed(objective, tol), *names()]
    return _first_able(order, objective.loss, objective.regulariser.penalty, objective)


#: Largest number of features for which a d × d Hessian is cheap.
FEW_FEATURES = 600

#: Largest mean of q = ‖x‖²/(αn) for which dual coordinate descent is chosen. q is how much an update of the dual
#: variable of a row changes its own score; if it is large, the updates of different rows undo each other.
LARGEST_Q = 50.0

#: Smallest tolerance for which dual coordinate descent is chosen: it converges only linearly.
TIGHT = 1e-8


def _by_speed(objective: Any, tol: float) -> list[str]:
    """Solvers in the order of their speed on the data of docs/benchmarks.md, from which the thresholds are taken.

    Dual coordinate descent is fastest on sparse rows with many features, unless α is so small that rows undo each
    other's updates, or the tolerance is very small. With few features, a pass over the rows is expensive compared to
    the Hessian. For dense rows, methods that use BLAS are fastest. For rows in files, the number of passes over the
    file decides, and dual coordinate descent needs 1.4 to 4 times fewer than L-BFGS where this rule chooses it.
    """
    loss, regulariser, engine = objective.loss, objective.regulariser, objective.engine
    if not loss.is_smooth:
        return ["dual_cd", "multipliers", "admm"] if regulariser.penalty.is_smooth else ["multipliers", "admm"]
    if not regulariser.penalty.is_smooth:
        return ["block_cd", "sparsa", "fista"]
    (n, d), is_sparse = engine.shape, not engine.is_dense
    few = d <= FEW_FEATURES if is_sparse else d <= FEW_FEATURES // 4
    if few and not loss.is_direct and engine.n_columns * d <= 64 * FEW_FEATURES:
        return ["newton", "lbfgs"]
    is_suited = is_sparse and tol >= TIGHT and bool((regulariser.strengths > 0.0).all())
    if is_suited and _mean_square(objective) <= LARGEST_Q * n * float(regulariser.strengths.min(initial=1.0)):
        return ["dual_cd", "lbfgs"]
    return ["lbfgs"] if loss.is_direct else ["newton"] if is_sparse and engine.n_columns == 1 else ["lbfgs"]


def _mean_square(objective: Any) -> float:
    """Weighted mean of the squared norms of the rows, without a pass over rows elsewhere that nobody needs later."""
    if objective.fit_intercept and _local_rows(objective) is None:
        return float(objective.moments[1].sum())  # all solvers need the moments
    return float(objective.mean_square)


def check_memory(solver: Solver, objective: Any) -> None:
    """Raise an error before a fit that needs too much memory. The certificate needs 3 parameter arrays in float64."""
    engine = objective.engine
    (n, d), k = engine.shape, engine.n_columns
    needed = solver.memory(engine.largest_block, d, k, engine.dtype.itemsize) + 24 * d * k
    if engine.room is not None:
        memory.check_budget(solver.name, needed, engine.room)
    X = _local_rows(objective)
    if X is not None and solver.order is not None:
        from lineal.design.orders import copied_bytes

        needed += copied_bytes(X, solver.order)
    memory.check_fit(solver.name, needed, (n, d), k)


def get(name: str) -> Solver:
    """The solver called `name`."""
    solver: Solver = importlib.import_module(f"{__name__}.{name}").solve
    return solver


def options_class(name: str) -> type[SolverOptions] | None:
    """Class of a solver's own options, None if it has none. Solvers of lineal are not imported for this."""
    from lineal.solvers.options import OPTIONS

    return OPTIONS[name] if name in OPTIONS else get(name).options


def _local_rows(objective: Any) -> Design | None:
    """X if the engine is local, else None."""
    from lineal.engine.local import LocalEngine

    return objective.engine.X if isinstance(objective.engine, LocalEngine) else None


def _first_able(order: list[str], loss: Any, penalty: Any, objective: Any) -> Solver:
    """First solver that can handle the loss and the penalty and, if it is given, the objective."""
    refusals: dict[str, str] = {}
    for candidate in order:
        solver = get(candidate)
        try:
            solver.check(loss, penalty)
            if objective is not None:
                solver.check_objective(objective)
        except OptionError as refusal:
            refusals[candidate] = str(refusal)
        else:
            return solver
    if len(refusals) == 1:
        raise OptionError(next(iter(refusals.values())))
    text = "; ".join(refusals.values())
    raise OptionError(f"no solver can minimise loss {loss.name!r} with penalty {penalty.name!r}: {text}")
