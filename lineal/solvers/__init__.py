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

#: Files of this folder that are not solvers: algorithms that minimise no `Objective`, the options of all solvers, and
#: the rules by which one is chosen.
NOT_SOLVERS = ("calibrated", "stagewise", "options", "shard_fit", "shard_loop", "choice")


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
    order = _suggested(objective, tol, False) if name == "auto" else [name]
    return _first_able(order, *_parts(objective), objective)


def plan(name: str, objective: Any, tol: float) -> tuple[Solver, str]:
    """The solver called `name`, or for "auto" the one that is probably the fastest for these rows, and why.

    If dual coordinate descent is, the solver hands over to another one where the gap closes too slowly.
    """
    if name != "auto":
        return pick(name, objective, tol), ""
    from lineal.solvers.choice.rules import by_speed
    from lineal.solvers.newton import sample_size

    can_change = _local_rows(objective) is not None
    reasons: dict[str, str] = dict(by_speed(objective, tol, can_change))
    first = _first_able([*reasons, *names()], *_parts(objective), objective)
    why = reasons.get(first.name, "the first one that can handle this loss and penalty")
    if first.name == "newton" and sample_size.is_worthwhile(objective):
        from lineal.solvers.choice.stages import lbfgs_then_newton

        return lbfgs_then_newton(get("lbfgs"), first, why), ""
    later = [other for other in reasons if other != first.name]
    if not can_change or first.name != "dual_cd" or not later or not objective.loss.is_smooth:
        return first, f"{first.name}: {why}"
    second = _first_able(later, *_parts(objective), objective)
    if not _has_room(second, objective):
        return first, f"{first.name}: {why}"
    from lineal.solvers.choice.stages import dual_then

    return dual_then(first, second, objective, why), ""


def _suggested(objective: Any, tol: float, can_change: bool) -> list[str]:
    """Names of all solvers, those first that are probably the fastest."""
    from lineal.solvers.choice.rules import by_speed

    return list(dict.fromkeys([*(one.solver for one in by_speed(objective, tol, can_change)), *names()]))


def _parts(objective: Any) -> tuple[Any, Any]:
    return objective.loss, objective.regulariser.penalty


def _has_room(solver: Solver, objective: Any) -> bool:
    """Whether a solver that may take over has room."""
    needed = _needed(solver, objective)
    return memory.has_room(needed) and (objective.engine.room is None or needed <= objective.engine.room)


def _needed(solver: Solver, objective: Any) -> int:
    """Bytes that a fit needs besides X. The certificate needs 3 parameter arrays in float64."""
    engine = objective.engine
    (_, d), k = engine.shape, engine.n_columns
    return int(solver.memory(engine.largest_block, d, k, engine.dtype.itemsize)) + 24 * d * k


def check_memory(solver: Solver, objective: Any) -> None:
    """Raise an error before a fit that needs too much memory."""
    engine = objective.engine
    (n, d), k = engine.shape, engine.n_columns
    needed = _needed(solver, objective)
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
