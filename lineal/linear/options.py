"""Options of training, once: estimator parameters, command-line flags and the texts of both are made from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineal import losses, penalties, solvers
from lineal.engine.choice import check_engine
from lineal.errors import OptionError, similar, unknown_value
from lineal.solvers import options as solver_options
from lineal.system.options import Options, checkpoint_option, need_checkpoint, option
from lineal.system.solver_options import SolverOptions

if TYPE_CHECKING:
    import numpy as np

#: Ways from scores to label sets (`thresholds.py`, which help texts need not import).
THRESHOLDS = ("zero", "global", "per_label", "learned")

#: What thresholds for one label per row can be chosen for (`decisions.py`), besides costs, and the name for those.
DECISIONS, COSTS = ("f1", "balanced"), "costs"

#: F1 of held-out rows below which a label's cut is not trusted.
FBR = 0.1


@dataclass(frozen=True)
class TrainOptions(Options):
    """How a linear model is trained."""

    loss: str = option(
        "squared_hinge",
        f"loss: {', '.join(losses.names())}; tables without text: logistic, or softmax for more than two classes",
    )
    penalty: str = option("l2", f"penalty on the weights: {', '.join(penalties.names())}")
    alpha: float = option(1e-4, "strength of the penalty; the loss is a mean, so it keeps its meaning as data grows")
    l1_ratio: float | None = option(
        None, "share of the l1 norm in elastic_net and sparse_group, in (0, 1]; None means 0.5"
    )
    feature_groups: Any = option(  # noqa: RUF009
        None, "lists of feature numbers, or one group number per feature: the groups of l1/l2, l1/linf and sparse_group"
    )
    penalty_factors: Any = option(  # noqa: RUF009
        None, "one factor per feature, or per group, that multiplies its penalty; zero means no penalty"
    )
    solver: str = option("auto", f"algorithm: auto, {', '.join(solvers.names())}")
    solver_options: dict[str, Any] | None = option(  # noqa: RUF009
        None, f"options of the solver, by name; they need a solver other than auto; {solver_options.text()}"
    )
    tol: float = option(1e-3, "stop at this relative duality gap (relative violation where no gap exists)")
    fit_intercept: bool = option(True, "fit an intercept; it is never penalised")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of class weights")  # noqa: RUF009
    probability: bool = option(
        False, "calibrate probabilities on held-out folds, for losses without built-in probabilities"
    )
    threshold: str | list[list[float]] | None = option(  # noqa: RUF009
        None, f"what decides, learnt from held-out rows. One label per row: {' or '.join(DECISIONS)} for the best F1 "
        "or balanced accuracy, or a matrix of costs [true][predicted]; None means the largest score. Label sets: "
        f"{', '.join(THRESHOLDS)}; None means learned for label_ranking, else zero",
    )  # fmt: skip
    fbr: float | None = option(
        None, f"threshold per_label: F1 below which a label's cut is its highest held-out score; None means {FBR}"
    )
    max_iter: int = option(1000, "maximum number of iterations")
    max_time: float | None = option(None, "time limit in seconds; the best model so far is kept")
    n_jobs: int | None = option(None, "number of threads; None or -1 means all cores")
    engine: str = option(
        "auto", "where the rows are: local (memory of this process), file (converted files, read for every pass), dask "
        "(a cluster); auto takes dask for Dask collections and with an active client, and file for large files",
    )  # fmt: skip
    memory_budget: str | int | None = option(
        None, "memory of this process for rows in files, for example 2GB; None means half of what is available"
    )
    random_state: int | None = option(None, "seed of solvers that draw random numbers, and of rows held out")
    verbose: int = option(0, "1 shows progress: a bar on a terminal, lines elsewhere")
    checkpoint: str | None = checkpoint_option()

    def checked(self) -> TrainOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        for name, known in (("loss", losses.names()), ("penalty", penalties.names())):
            if getattr(self, name) not in known:
                raise unknown_value(name, getattr(self, name), known)
        if self.solver not in ("auto", *solvers.names()):
            raise unknown_value("solver", self.solver, ("auto", *solvers.names()))
        self._check_solver_options()
        self._check_votes()
        self.need_common("alpha", "tol", "max_iter", "max_time", "random_state")
        if self.l1_ratio is not None:
            self.get_penalty()
        self.need_flags("fit_intercept", "probability")
        check_engine(self.engine, self.memory_budget)
        self._check_threshold()
        need_checkpoint(self.checkpoint)
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self

    @property
    def has_votes(self) -> bool:
        """Whether the answer is several models that vote."""
        return (self.solver_options or {}).get("combine") == "vote"

    def _check_votes(self) -> None:
        if self.has_votes and (self.probability or self.rule not in (None, "zero")):
            what = "probability=True" if self.probability else self.shown_threshold
            raise OptionError(f"{what} needs one model with scores, and combine='vote' has several: use combine='mean'")

    def _check_solver_options(self) -> None:
        given = self.solver_options
        if given is not None and not (isinstance(given, dict) and all(isinstance(name, str) for name in given)):
            raise OptionError(f"solver_options={given!r} is not a dict from names to values")
        if not given:
            return
        if self.solver == "auto":
            owners = [solver_options.owners(name) for name in given]
            able = [solver for solver in solvers.names() if all(solver in some for some in owners)]
            which = " or ".join(map(repr, able)) if able else "the one that has them"
            raise OptionError(
                f"solver_options={given!r} are for one solver, and solver='auto' may take any: set solver to {which}"
            )
        SolverOptions.of(solvers.options_class(self.solver), self.solver, given)

    @property
    def rule(self) -> str | None:
        """Name of the threshold: that of costs is "costs"."""
        return self.threshold if self.threshold is None or isinstance(self.threshold, str) else COSTS

    @property
    def shown_threshold(self) -> str:
        """The threshold as messages name it."""
        return f"threshold={'…' if self.rule == COSTS else repr(self.rule)}"

    def costs(self) -> np.ndarray:
        """The costs of predictions, (k, k), by true and predicted class; an error if they are not finite numbers."""
        import numpy as np

        why = None
        try:
            costs = np.asarray(self.threshold)
            if costs.dtype.kind not in "iuf":
                why = "it holds values that are not numbers"
            elif costs.ndim != 2 or len(costs) != costs.shape[1] or len(costs) < 2:
                why = f"its shape is {costs.shape}"
            elif not np.isfinite(costs.astype(np.float64)).all():
                row, column = np.argwhere(~np.isfinite(costs))[0]
                why = f"row {row} has {costs[row, column]:g} in column {column}"
        except (TypeError, ValueError, OverflowError):
            why = "its rows are not lists of equally many numbers"
        if why is not None:
            raise OptionError(
                f"threshold=… is neither one of {', '.join(DECISIONS)} nor a matrix of costs, which "
                f"has one row per true class and one column per predicted class, all of them finite numbers: {why}"
            )
        return costs.astype(np.float64)

    def to_json(self) -> dict[str, Any]:
        values = super().to_json()
        return values if self.rule != COSTS else {**values, "threshold": self.costs().tolist()}

    def _check_threshold(self) -> None:
        if self.rule == COSTS:
            self.costs()
        elif self.rule not in (None, *DECISIONS, *THRESHOLDS):
            near = similar(self.rule, (*DECISIONS, *THRESHOLDS))
            raise OptionError(
                f"threshold={self.rule!r} is unknown: {near}for one label per row there are "
                f"{', '.join(map(repr, DECISIONS))} and a matrix of costs, for label sets "
                f"{', '.join(map(repr, THRESHOLDS))}"
            )
        if self.probability and self.rule in THRESHOLDS[1:]:
            raise OptionError(
                f"probability=True with threshold={self.threshold!r}: a label would not be likelier than not where it "
                "is predicted; use threshold 'zero', or leave out probability"
            )
        if self.fbr is not None:
            self.need("fbr", lambda v: 0.0 <= v <= 1.0, "a number from 0 to 1, or None")
            if self.rule != "per_label":
                raise OptionError(f"fbr={self.fbr!r} is for threshold 'per_label', not {self.rule!r}")

    def get_penalty(self) -> Any:
        """The penalty with its parameter; refuses one that it does not have."""
        if self.l1_ratio is None:
            return penalties.get(self.penalty)
        self.need("l1_ratio", lambda v: 0.0 < v <= 1.0, "a number in (0, 1], or None")
        return penalties.get(self.penalty, l1_ratio=float(self.l1_ratio))
