"""One file or one folder per algorithm. A solver takes an `Objective` and returns a `Solution`, but see `NO_SOLVERS`.

Each file has a `solve` that is decorated with `lineal.problem.solver.solver`, which says what a solver can tell about
itself. Solvers may import `numerics`, `problem` and what is below. To add one, add its file; `CONTRIBUTING.md` has an
example.
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

#: Files here that are no solvers: algorithms that minimise no `Objective`, which their estimators call, and options.
NO_SOLVERS = ("calibrated", "stagewise", "options")


def names() -> list[str]:
    """Names of the solvers, read off the folder without importing them (so that help texts need no Numba)."""
    return [name for name in _files(*__path__) if name not in NO_SOLVERS]


@cache
def _files(*folders: str) -> tuple[str, ...]:
    return tuple(module.name for module in pkgutil.iter_modules(folders))


def choose(name: str, loss: Any, penalty: Any) -> Solver:
    """The solver called `name`, or for "auto" some that can honour the loss and the penalty; refuses where none can."""
    return _first_able([name] if name != "auto" else names(), loss, penalty, None)


def pick(name: str, objective: Any, tol: float) -> Solver:
    """The solver called `name`, or for "auto" the one that is likely to be the fastest for these rows."""
    order = [name] if name != "auto" else [*_by_speed(objective, tol), *names()]
    return _first_able(order, objective.loss, objective.regulariser.penalty, objective)


#: Features up to which a d × d Hessian is kept.
FEW_FEATURES = 600

#: Mean of q = ‖x‖²/(αn), how far a step in one row's dual variable moves its own score, beyond which rows fight.
LARGEST_Q = 50.0


#: Gap below which the rate of coordinate descent, which is only linear, tells.
TIGHT = 1e-8


def _by_speed(objective: Any, tol: float) -> list[str]:
    """Solvers in the order of their speed on the data of docs/benchmarks.md, where the thresholds come from.

    Dual coordinate descent wins on sparse rows with many features, unless α is so small that rows undo each other's
    steps or the answer must be exact. With few features a pass over the rows is dear compared to the Hessian. Dense
    rows are best left to BLAS.
    """
    loss, regulariser, engine = objective.loss, objective.regulariser, objective.engine
    if not regulariser.penalty.is_smooth:
        return ["block_cd", "sparsa", "fista"]
    if not loss.is_smooth:
        return ["dual_cd"]
    (n, d), is_sparse = engine.shape, not engine.is_dense
    few = d <= FEW_FEATURES if is_sparse else d <= FEW_FEATURES // 4
    if few and not loss.is_direct and engine.n_columns * d <= 64 * FEW_FEATURES:
        return ["newton", "lbfgs"]
    is_suited = is_sparse and tol >= TIGHT and bool((regulariser.strengths > 0.0).all())
    if is_suited and objective.mean_square <= LARGEST_Q * n * float(regulariser.strengths.min(initial=1.0)):
        return ["dual_cd", "lbfgs"]
    return ["lbfgs"] if loss.is_direct else ["newton"] if is_sparse and engine.n_columns == 1 else ["lbfgs"]


def check_memory(solver: Solver, objective: Any) -> None:
    """Refuse a fit that does not fit into memory, before it takes any. The certificate adds 3 parameter arrays."""
    (n, d), k = objective.engine.shape, objective.engine.n_columns
    needed = solver.memory(n, d, k, objective.engine.dtype.itemsize) + 24 * d * k
    X = _local_rows(objective)
    if X is not None and solver.order is not None:
        from lineal.design.orders import copied_bytes

        needed += copied_bytes(X, solver.order)
    memory.check_fit(solver.name, needed, (n, d), k)


def get(name: str) -> Solver:
    """The solver called `name`."""
    found: Solver = importlib.import_module(f"{__name__}.{name}").solve
    return found


def options_class(name: str) -> type[SolverOptions] | None:
    """The class of a solver's own options; None where it has none. Known without an import for lineal's own."""
    from lineal.solvers.options import OPTIONS

    return OPTIONS[name] if name in OPTIONS else get(name).options


def _local_rows(objective: Any) -> Design | None:
    """X where it is held in this process."""
    from lineal.engine.local import LocalEngine

    return objective.engine.X if isinstance(objective.engine, LocalEngine) else None


def _first_able(order: list[str], loss: Any, penalty: Any, objective: Any) -> Solver:
    """The first solver of an order that takes the loss and the penalty and, where it is known, the objective."""
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
    raise OptionError(f"no solver takes loss {loss.name!r} with penalty {penalty.name!r}: {text}")
