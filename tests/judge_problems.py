"""Random problems for the judge, hostile but valid. A problem is made from its number alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from judge_objective import DIRECT, TAKES_SETS, Stated
from scipy import sparse

import lineal.losses
import lineal.penalties
import lineal.solvers

#: Changing it changes every problem.
SEED = 20_17

#: The first problems, some of which `make test` judges. They come in few layouts, precisions and penalties per loss:
#: every other one means kernels to compile, which takes seconds.
FIRST = 200

LAYOUTS = ("C", "F", "csr", "csc")

GROUP_PENALTIES = ("l1/l2", "l1/linf", "sparse_group")


@dataclass(frozen=True)
class Problem:
    """A fit to be judged, for several solvers.

    Attributes
    ----------
    X : (n, d) float64; its numbers have the given precision.
    options : parameters of `LinearClassifier`, but for the solver.
    solvers : the solvers to try.
    traits : what is unusual about it, in words.
    """

    number: int
    X: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray | None
    offsets: np.ndarray | None
    layout: str
    dtype: str
    index_dtype: str
    options: dict[str, Any]
    solvers: tuple[str, ...]
    traits: tuple[str, ...]

    @property
    def rows(self) -> Any:
        """X as the library gets it."""
        if self.layout in ("C", "F"):
            return np.array(self.X, self.dtype, order=self.layout)  # type: ignore[call-overload]
        kind = sparse.csr_array if self.layout == "csr" else sparse.csc_array
        X = kind(np.asarray(self.X, self.dtype))
        X.indices, X.indptr = X.indices.astype(self.index_dtype), X.indptr.astype(self.index_dtype)
        return X

    @property
    def is_multilabel(self) -> bool:
        """Whether rows have label sets."""
        return self.y.ndim == 2

    @property
    def classes(self) -> np.ndarray:
        """The labels, sorted; column numbers for label sets."""
        return np.arange(self.y.shape[1]) if self.is_multilabel else np.unique(self.y)

    @property
    def has(self) -> np.ndarray:
        """Which row has which label, in the columns of the scores."""
        if self.is_multilabel:
            return self.y.astype(bool)
        has = self.y[:, None] == self.classes
        return has if len(self.classes) > 2 or self.options["loss"] in DIRECT else has[:, 1:]

    def row_weights(self) -> np.ndarray:
        """Weights of the rows, class weights included."""
        s = np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight
        rule = self.options["class_weight"]
        if rule is None:
            return s
        shares = np.array([s[self.y == label].sum() for label in self.classes])
        if rule == "balanced":
            factors = s.sum() / (len(shares) * shares)
        else:
            factors = np.array([rule.get(label, 1.0) for label in self.classes.tolist()])
        return s * factors[np.searchsorted(self.classes, self.y)]

    def stated(self) -> Stated:
        """The objective as the documentation states it."""
        has, options = self.has, self.options
        offsets = np.zeros(has.shape)
        if self.offsets is not None:
            given = self.offsets.reshape(len(has), -1).astype(self.dtype).astype(np.float64)
            offsets = np.broadcast_to(given, has.shape)
        d = self.X.shape[1]
        groups = options["feature_groups"]
        blocks = [np.array([j]) for j in range(d)] if groups is None else [np.array(group) for group in groups]
        factors = options["penalty_factors"]
        strengths = options["alpha"] * (np.ones(len(blocks)) if factors is None else np.array(factors))
        return Stated(
            loss=options["loss"],
            penalty=options["penalty"],
            ratio=0.5 if options["l1_ratio"] is None else options["l1_ratio"],
            X=self.X,
            has=has,
            weights=self.row_weights(),
            offsets=offsets,
            blocks=blocks,
            strengths=strengths,
            fit_intercept=options["fit_intercept"],
        )

    def snippet(self, solver: str) -> str:
        """Python that repeats the fit: with literal arrays for small problems, else by its number."""
        given = {name: value for name, value in self.options.items() if value is not None}
        arguments = ", ".join(f"{name}={value!r}" for name, value in {**given, "solver": solver}.items())
        if self.X.size > 80 or self.number < 0:
            head = (
                "import sys; sys.path.insert(0, 'tests'); from judge_problems import draw\n"
                f"p = draw({self.number}); X, y, s, o = p.rows, p.y, p.sample_weight, p.offsets"
            )
        else:
            X = f"np.array({np.asarray(self.X, self.dtype).tolist()!r}, {self.dtype!r})"
            X = {"C": X, "F": f"np.asfortranarray({X})"}.get(self.layout, f"sparse.{self.layout}_array({X})")
            s, o = (None if a is None else a.tolist() for a in (self.sample_weight, self.offsets))
            head = f"import numpy as np; from scipy import sparse\nX, y = {X}, {self.y.tolist()!r}\ns, o = {s!r}, {o!r}"
        return f"{head}\nfrom lineal import LinearClassifier\nLinearClassifier({arguments}).fit(X, y, s, o)"

    def __str__(self) -> str:
        n, d = self.X.shape
        kind = f"{self.y.shape[1]} labels" if self.is_multilabel else f"{len(self.classes)} classes"
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items() if value is not None)
        traits = ", ".join(self.traits) or "plain"
        return f"problem {self.number}: {n} × {d} {self.layout} {self.dtype}, {kind} ({traits}); {options}"


def able_solvers(loss: str, penalty: str, groups: Any, strengths: np.ndarray) -> list[str]:
    """Solvers that the table in docs/guide/objectives.md lists for a problem."""
    from judge_objective import SMOOTH

    is_free = bool((strengths <= 0).any())
    takes = {
        "dual_cd": loss in ("hinge", "squared_hinge", "logistic", "crammer_singer", "softmax")
        and penalty == "l2"
        and not is_free,
        "newton": loss in SMOOTH and penalty == "l2",
        "lbfgs": loss in SMOOTH and penalty == "l2",
        "least_squares": loss in SMOOTH and penalty == "l2",
        "block_cd": loss in SMOOTH,
        "fista": loss in SMOOTH,
        "sparsa": loss in SMOOTH,
        "multipliers": loss in ("hinge", "crammer_singer"),
        "fobos": groups is None,
    }
    return [name for name in lineal.solvers.names() if takes.get(name, False)]


def loss_of(number: int) -> str:
    """The loss of the problem of that number: each in turn."""
    names = lineal.losses.names()
    return names[number % len(names)]


def draw(number: int) -> Problem:
    """The problem of that number."""
    rng = np.random.default_rng([SEED, number])
    loss = loss_of(number)
    dtype, layout = _storage(rng, number, loss)
    is_sets = loss in TAKES_SETS and rng.random() < 0.25
    k = int(rng.integers(2, 7)) if is_sets or rng.random() < 0.5 else 2
    n = int(np.clip(round(np.exp(rng.uniform(0.0, np.log(200)))), 1 if is_sets else k, 200))
    d = int(np.clip(round(np.exp(rng.uniform(0.0, np.log(50)))), 1, 50))
    X, standard, traits = _columns(rng, n, d)
    y, is_separable = _labels(rng, standard, k, is_sets)
    traits += ["separable"] if is_separable else []
    options = _options(rng, loss, d, _penalties(number, loss))
    X = X.astype(dtype).astype(np.float64)
    problem = Problem(
        number, X, y, _weights(rng, y), None, layout, dtype, str(rng.choice(["int32", "int64"])), options, (), ()
    )
    if not is_sets:
        problem.options["class_weight"] = _class_weight(rng, problem.classes)
    if rng.random() < 0.2:
        traits.append("offsets")
        size = 10.0 ** rng.uniform(-1, 2)
        problem = replace(problem, offsets=size * rng.standard_normal(problem.has.shape))
    stated = problem.stated()
    able = able_solvers(loss, options["penalty"], options["feature_groups"], stated.strengths)
    chosen = rng.permutation(able if rng.random() < 0.9 else lineal.solvers.names())[:2]
    traits += ["sample weights"] if problem.sample_weight is not None else []
    return replace(problem, solvers=("auto", *map(str, chosen)), traits=tuple(traits))


def _storage(rng: np.random.Generator, number: int, loss: str) -> tuple[str, str]:
    """Precision and layout."""
    dtype, layout = str(rng.choice(["float32", "float64"])), str(rng.choice(LAYOUTS))
    if number < FIRST:
        return [("float64", "csr"), ("float32", "C")][lineal.losses.names().index(loss) % 2]
    return dtype, layout


def _columns(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """X, the same before its columns were scaled and moved, and what is unusual about it."""
    traits = []
    X = rng.standard_normal((n, d))
    if rng.random() < 0.3:
        X = np.round(2 * X)
    if rng.random() < 0.4:
        traits.append("zeros")
        X *= rng.random((n, d)) < rng.uniform(0.1, 0.9)
    if d > 1 and rng.random() < 0.2:
        traits.append("duplicated column")
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    standard = X.copy()
    which = rng.random()
    if which < 0.3:
        traits.append("columns of different scales")
        X = X * 10.0 ** rng.uniform(-6, 6, d)
    elif which < 0.5:
        scale = 10.0 ** rng.uniform(-6, 6)
        traits.append(f"scale {scale:.0e}")
        X = X * scale
    if rng.random() < 0.4:
        distance = float(rng.choice([1.0, 1e3, 1e6]))
        moved = rng.random(d) < (1.0 if rng.random() < 0.5 else 0.3)
        traits.append(f"{int(moved.sum())} columns {distance:.0e} standard deviations from zero")
        X = X + distance * moved * np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    if rng.random() < 0.15:
        traits.append("constant column")
        X[:, rng.integers(d)] = 10.0 ** rng.uniform(-3, 5)
    if rng.random() < 0.15:
        traits.append("empty column")
        X[:, rng.integers(d)] = 0.0
    if rng.random() < 0.15:
        traits.append("empty row")
        X[rng.integers(n)] = 0.0
    return X, standard, traits


def _labels(rng: np.random.Generator, standard: np.ndarray, k: int, is_sets: bool) -> tuple[np.ndarray, bool]:
    """Labels that the rows tell more or less, or not at all; whether they are those of a linear model without noise."""
    n, d = standard.shape
    noise = float(rng.choice([0.0, 0.5, 100.0], p=[0.3, 0.5, 0.2]))
    scores = standard @ rng.standard_normal((d, k)) / np.sqrt(d) + noise * rng.standard_normal((n, k))
    if is_sets:
        return (scores > rng.normal(0, 0.5, k)).astype(np.int64), False
    if k == 2:
        y = (scores[:, 0] > 0).astype(np.int64)
    else:
        y = scores.argmax(axis=1)
    missing = np.setdiff1d(np.arange(k), y)
    if len(missing):
        y[rng.permutation(n)[:k]] = np.arange(k)
    return y, noise == 0.0 and not len(missing)


def _weights(rng: np.random.Generator, y: np.ndarray) -> np.ndarray | None:
    """Weights of the rows; every class keeps some."""
    which = rng.random()
    n = len(y)
    if which < 0.6:
        return None
    if which < 0.75:
        return rng.random(n) + 1e-3
    s = (rng.random(n) < 0.7).astype(np.float64) if which < 0.9 else 10.0 ** rng.uniform(-6, 6, n)
    s[np.unique(y if y.ndim == 1 else y[:, 0], return_index=True)[1]] = 1.0
    return s


def _class_weight(rng: np.random.Generator, classes: np.ndarray) -> Any:
    which = rng.random()
    if which < 0.75:
        return None
    if which < 0.88:
        return "balanced"
    return {int(label): float(10.0 ** rng.uniform(-2, 2)) for label in classes[: rng.integers(1, len(classes) + 1)]}


def _penalties(number: int, loss: str) -> list[str]:
    """Penalties to choose from: of the first problems l2 and two others per loss, so that all occur with some loss."""
    names = lineal.penalties.names()
    if number >= FIRST:
        return names
    others = [name for name in names if name != "l2"]
    at = 2 * lineal.losses.names().index(loss)
    return ["l2", *(others[(at + i) % len(others)] for i in range(2))]


def _options(rng: np.random.Generator, loss: str, d: int, penalties: list[str]) -> dict[str, Any]:
    penalty = "l2" if rng.random() < 0.3 else str(rng.choice(penalties))
    groups = None
    if penalty in GROUP_PENALTIES and rng.random() < 0.4:
        numbers = np.unique(rng.integers(0, max(1, d // 2), d), return_inverse=True)[1]
        groups = [np.flatnonzero(numbers == g).tolist() for g in range(numbers.max() + 1)]
    factors = None
    if rng.random() < 0.2:
        factors = 2.0 * rng.random(d if groups is None else len(groups))
        if rng.random() < 0.5:
            factors[rng.random(len(factors)) < 0.3] = 0.0
        factors = factors.tolist()
    return {
        "loss": loss,
        "penalty": penalty,
        "alpha": 0.0 if rng.random() < 0.1 else float(10.0 ** rng.uniform(-8, 3)),
        "l1_ratio": float(np.round(rng.uniform(0.05, 1.0), 3)) if penalty in ("elastic_net", "sparse_group") else None,
        "feature_groups": groups,
        "penalty_factors": factors,
        "tol": float(10.0 ** rng.uniform(-6, -2)),
        "fit_intercept": bool(rng.random() < 0.75),
        "class_weight": None,
    }
