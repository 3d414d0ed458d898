"""Binary logistic regression with l1, and with groups of features: lineal against skglm, celer and adelie.

Time to a relative distance of 1e-3 and of 1e-4 from the least objective, as in `benchmarks.liblinear`: lineal's is that
of a whole certified solution, the least over tolerances, from the matrix in memory; a peer's that of its training call
alone with its own layout made beforehand, the least over its tolerances (for adelie also over paths of one and of ten
strengths, and threads). Groups are runs of neighbouring features, the penalty is α Σ_g ‖w_g‖.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.liblinear.ours import fastest
from benchmarks.liblinear.peers import has
from benchmarks.liblinear.problems import TARGETS, Rows
from benchmarks.sparse_multiclass import exact, ours
from benchmarks.sparse_multiclass.elsewhere import Elsewhere
from benchmarks.sparse_multiclass.problems import Plan, Table
from lineal.linear.search.alphas import largest_alpha

TITLE = "Seconds to a relative suboptimality, binary logistic regression, no intercept"
COLUMNS = (
    "data", "penalty", "α / α_max", "target", "fastest peer", "peer s", "f32 s", "f32 ratio", "f64 s", "f64 ratio",
    "1 thread f32 ratio", "1 thread f64 ratio",
)  # fmt: skip

#: Strengths, as shares of the smallest that makes all weights zero.
SHARES = (0.1, 0.01)

#: Features of a group, by data: categories of about that many values, half lines of an image, words with one stem.
GROUPS = {"a9a": 9, "w8a": 10, "MNIST": 14, "wiki_toxicity": 10}

#: A peer whose last try took this many times the best time to the last goal is not run to higher accuracy.
HOPELESS = 3.0

#: Seconds of one fit of a peer in another interpreter at most.
MAX_SECONDS = 600.0


class Task(NamedTuple):
    """Data with two labels, and a penalty: `starts` has the first feature of every group, None for l1."""

    rows: Rows
    alpha: float
    share: float
    starts: np.ndarray | None

    @property
    def penalty(self) -> str:
        return "l1" if self.starts is None else f"groups of {self.starts[1]}"

    def value(self, W: np.ndarray) -> float:
        return exact.objective(self.rows.X, self.rows.y, W, "logistic", self.alpha, self.starts)

    @property
    def kind(self) -> dict[str, Any]:
        """What `ours.problem` has to know."""
        if self.starts is None:
            return {"loss": "logistic", "penalty": "l1"}
        return {"loss": "logistic", "penalty": "l1/l2", "groups": _numbers(self.starts, self.rows.X.shape[1])}


#: A setting of a peer, and a function that returns seconds and weights, or None where it fails.
Rung = tuple[str, Callable[[], tuple[float, np.ndarray] | None]]


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    table: list[list[Any]] = []
    details: list[dict[str, Any]] = []
    for task in _tasks(plan):
        detail = _compare(plan, task)
        details.append(detail)
        table += detail.pop("table")
        found = ", ".join(ours.show(row[7]) for row in table[-len(TARGETS) :])
        print(f"{task.rows.name}, {task.penalty}, {task.share:g}: ratios {found}", flush=True)
    return [Table("peers", TITLE, COLUMNS, table)], details


def _tasks(plan: Plan) -> Iterator[Task]:
    few, many = ("a9a",), ("wiki_toxicity", "a9a", "w8a")
    for penalty, names in (("l1", many), ("groups", ("wiki_toxicity", "a9a", "MNIST"))):
        for name in plan.selected(few if plan.is_quick else names):
            rows = plan.load(name)
            if rows.n_classes > 2:
                rows = Rows(f"{name}, odd", rows.X, rows.y % 2)
            starts = None if penalty == "l1" else np.arange(0, rows.X.shape[1], GROUPS[name])
            most = largest_alpha(ours.problem(rows.X, rows.y, 1.0, **Task(rows, 1.0, 1.0, starts).kind))
            for share in SHARES:
                yield Task(rows, share * most, share, starts)


def _compare(plan: Plan, task: Task) -> dict[str, Any]:
    rows, warm, found = task.rows, 0.0, {}
    _, best = ours.run(rows.as_type(np.float64), rows.y, task.alpha, 1e-9, max_time=plan.max_time, **task.kind)
    least = task.value(best.weights)
    goals = [least * (1.0 + target) for target in TARGETS]
    for label, dtype, n_jobs in ours.SETTINGS:
        X = rows.as_type(dtype)
        warm += ours.warm_up(X, rows.y, task.alpha, **task.kind)
        found[label] = ours.descend(
            X, rows.y, task.alpha, task.value, goals, plan.repeats, n_jobs=n_jobs, max_time=plan.max_time, **task.kind
        )  # fmt: skip
    theirs = _race(plan, task, goals)
    return {
        "data": rows.name, "penalty": task.penalty, "share": task.share, "alpha": task.alpha, "reference": least,
        "reference_gap": best.certificate.value, "warm_up_seconds": warm, "lineal": found, "peers": theirs,
        "table": [_row(task, target, goal, found, theirs) for target, goal in zip(TARGETS, goals)],
    }  # fmt: skip


def _row(task: Task, target: float, goal: float, found: dict[str, Any], theirs: list[Any]) -> list[Any]:
    peer = fastest(theirs, goal)
    row: list[Any] = [task.rows.name, task.penalty, f"{task.share:g}", f"{target:g}"]
    row += [peer and f"{peer['peer']} {peer['setting']}", peer and peer["seconds"]]
    for number, (label, _, _) in enumerate(ours.SETTINGS):
        own = (fastest(found[label], goal) or {}).get("seconds")
        ratio = peer["seconds"] / own if peer and own else None
        row += [own, ratio] if number < 2 else [ratio]
    return row


def _race(plan: Plan, task: Task, goals: list[float]) -> list[dict[str, Any]]:
    """Every peer over its tolerances, from loose to tight, until the last goal or hopelessly late."""
    tries: list[dict[str, Any]] = []
    for peer, rungs in _ladders(plan, task):
        for setting, fit in rungs:
            answer = fit()
            if answer is None:
                break
            seconds, W = answer
            tries.append({"peer": peer, "setting": setting, "seconds": seconds, "objective": task.value(W)})
            best = min((one["seconds"] for one in tries if one["objective"] <= min(goals)), default=np.inf)
            if tries[-1]["objective"] <= min(goals) or seconds > HOPELESS * best:
                break
    return tries


def _ladders(plan: Plan, task: Task) -> Iterator[tuple[str, list[Rung]]]:
    if has("celer") and task.starts is None:
        yield "celer", _celer(plan, task)
    if has("skglm"):
        yield "skglm", _skglm(plan, task) if task.starts is None else _skglm_groups(plan, task)
    if plan.adelie is not None:
        starts = np.arange(task.rows.X.shape[1]) if task.starts is None else task.starts
        with Elsewhere(plan.adelie, task.rows.X, task.rows.y, starts=starts) as peer:
            for threads in (1, 2):
                for length in (1, 10):
                    yield "adelie", _adelie(plan, task, peer, threads, length)


def _timed(plan: Plan, fit: Callable[[], np.ndarray]) -> tuple[float, np.ndarray] | None:
    """The least seconds of some fits, and weights (d, 1)."""
    best, w = np.inf, np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loose tolerances are on purpose
        for _ in range(plan.repeats):
            start = time.perf_counter()
            try:
                w = fit()
            except Exception as error:  # a peer that cannot pose the problem says so in its own way
                print(f"a peer failed: {type(error).__name__}: {str(error).strip().splitlines()[:1]}", flush=True)
                return None
            best = min(best, time.perf_counter() - start)
            if best > 20.0:
                break
    return best, np.asarray(w).reshape(-1, 1)


def _rungs(plan: Plan, task: Task, fit: Callable[[float], np.ndarray], tolerances: tuple[float, ...]) -> list[Rung]:
    _timed(plan, lambda: fit(1.0))  # compiles what its tolerance of one needs, and
    _timed(plan, lambda: fit(tolerances[0]))  # the rest
    return [(f"tol={tol:.1e}", lambda tol=tol: _timed(plan, lambda: fit(tol))) for tol in tolerances]


def _columns(X: Any) -> Any:
    """X as the peers want it: float64, by columns."""
    return np.asfortranarray(X, dtype=np.float64) if isinstance(X, np.ndarray) else X.astype(np.float64).tocsc()


def _celer(plan: Plan, task: Task) -> list[Rung]:
    from celer import LogisticRegression

    X, y, cost = _columns(task.rows.X), task.rows.y, 1.0 / (task.alpha * len(task.rows.y))
    return _rungs(
        plan, task, lambda tol: LogisticRegression(C=cost, tol=tol, max_iter=100, fit_intercept=False).fit(X, y).coef_,
        (3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5),
    )  # fmt: skip


def _skglm(plan: Plan, task: Task) -> list[Rung]:
    from skglm import SparseLogisticRegression

    X, y, alpha = _columns(task.rows.X), np.where(task.rows.y == 1, 1.0, -1.0), task.alpha

    def fit(tol: float) -> np.ndarray:
        return SparseLogisticRegression(alpha=alpha, tol=tol, fit_intercept=False, max_iter=100).fit(X, y).coef_

    return _rungs(plan, task, fit, tuple(share * alpha for share in (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)))


def _skglm_groups(plan: Plan, task: Task) -> list[Rung]:
    """Its proximal Newton method for groups; it takes dense X only."""
    from skglm.datafits import LogisticGroup
    from skglm.penalties import WeightedGroupL2
    from skglm.solvers import GroupProxNewton

    X, y, alpha = _columns(task.rows.X), np.where(task.rows.y == 1, 1.0, -1.0), task.alpha
    d = X.shape[1]
    if not isinstance(X, np.ndarray) and X.shape[0] * d <= 5e7:
        X = np.asfortranarray(X.toarray())
    ends = np.append(task.starts, d).astype(np.int32)
    order, ones = np.arange(d, dtype=np.int32), np.ones(len(ends) - 1)

    def fit(tol: float) -> np.ndarray:
        penalty = WeightedGroupL2(alpha, ones, ends, order)
        return GroupProxNewton(tol=tol, max_iter=100).solve(X, y, LogisticGroup(ends, order), penalty)[0]

    return _rungs(plan, task, fit, tuple(share * alpha for share in (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)))


def _adelie(plan: Plan, task: Task, peer: Elsewhere, threads: int, length: int) -> list[Rung]:
    alphas = [task.alpha] if length == 1 else np.geomspace(task.alpha / task.share, task.alpha, length).tolist()

    def fit(tol: float) -> tuple[float, np.ndarray] | None:
        answer = peer.run(
            "adelie_script.py", MAX_SECONDS, alphas=alphas, tol=tol, threads=threads, repeats=plan.repeats
        )  # fmt: skip
        return None if answer is None else (answer["seconds"], answer["weights"])

    label = f"{length} strengths, {threads} threads"
    return [(f"tol={tol:.0e}, {label}", lambda tol=tol: fit(tol)) for tol in (1e-3, 1e-5, 1e-7, 1e-9)]


def _numbers(starts: np.ndarray, d: int) -> np.ndarray:
    """The group of every feature."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, d)))
