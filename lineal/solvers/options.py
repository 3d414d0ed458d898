"""Options of the solvers; estimators, command line and documentation read them from here.

They are not in the files of the algorithms, so that help texts do not have to import Numba.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from lineal.errors import OptionError
from lineal.system.options import describe, option
from lineal.system.solver_options import SolverOptions, choice, names_and_values

#: Help of the option `shards`, which several solvers have.
SHARDS_HELP = (
    "number of shards of the rows; None: 4 for rows in memory, as few as memory_budget allows for files; on a cluster, "
    "shards are the partitions"
)


@dataclass(frozen=True)
class NewtonOptions(SolverOptions):
    """Options of Newton's method."""

    globalisation: str = choice(
        "line_search", ("line_search", "trust_region"), "how step sizes are chosen: line_search, trust_region"
    )


@dataclass(frozen=True)
class DualOptions(SolverOptions):
    """Options of dual coordinate descent."""

    shrinking: bool = option(True, "skip rows whose dual variables stay at their bounds, and check them at the end")
    inner_passes: int | None = option(
        None, "for rows in files: number of passes over a block of rows before the next one is loaded; None: 3"
    )


@dataclass(frozen=True)
class BlockOptions(SolverOptions):
    """Options of block coordinate descent. All except `method` are for those of Blondel, Seki & Uehara (2013)."""

    method: str = choice(
        "working_sets", ("working_sets", "cyclic", "random", "parallel"),
        "which groups are visited, and in which order: working_sets; or, as in the paper, all of them: cyclic, random "
        "(drawn with replacement) or parallel (many random ones at once)",
    )  # fmt: skip
    step: str | None = choice(
        None, ("line_search", "constant"),
        "step sizes of the paper's methods: line_search or constant; None: line_search for cyclic, else constant",
    )  # fmt: skip
    constant: str = choice(
        "tight", ("tight", "paper"), "bound of the curvature for step=constant: tight, or the looser one of the paper"
    )
    shrinking: bool = option(False, "skip groups that are zero and will probably stay zero (cyclic and random)")
    rule: str = choice(
        "gap", ("gap", "sum", "max"),
        "stopping rule of the paper's methods: gap, the certificate; or the sum or max of the violations in a sweep, "
        "relative to the first sweep",
    )  # fmt: skip

    @property
    def is_paper(self) -> bool:
        """Whether the method is from the paper."""
        return self.method != "working_sets"

    @property
    def searches(self) -> bool:
        """Whether a line search finds the step sizes of the paper's methods."""
        return self.step == "line_search" or (self.step is None and self.method == "cyclic")

    def checked(self) -> BlockOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        super().checked()
        if not self.is_paper:
            if self != BlockOptions():
                raise OptionError(
                    "step, constant, shrinking and rule are for method='cyclic' or 'random' or 'parallel'"
                )
            return self
        if self.searches and self.constant != "tight":
            raise OptionError("constant has no effect with step='line_search': use step='constant'")
        if self.method == "parallel" and self.searches:
            raise OptionError("method='parallel' needs step='constant': a line search handles one group at a time")
        if self.method == "parallel" and self.shrinking:
            raise OptionError("shrinking is for method='cyclic' and method='random'")
        return self


@dataclass(frozen=True)
class FistaOptions(SolverOptions):
    """Options of FISTA."""

    step: str = choice(
        "line_search", ("line_search", "constant"),
        "how step sizes are chosen: line_search, or constant, from an upper bound of the curvature",
    )  # fmt: skip
    constant: str = choice(
        "spectral", ("spectral", "trace"),
        "upper bound for step=constant: spectral, from the largest eigenvalue of X'X, or trace, which is looser",
    )  # fmt: skip
    restart: bool = option(
        True, "restart the momentum whenever the objective increases along it; False is FISTA as first published"
    )

    def checked(self) -> FistaOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        super().checked()
        if self.step == "line_search" and self.constant != "spectral":
            raise OptionError("constant has no effect with step='line_search': use step='constant'")
        return self


@dataclass(frozen=True)
class FobosOptions(SolverOptions):
    """Options of FOBOS."""

    rate: float | None = option(None, "step size of the first row, a positive number; None tries 1e-3 to 1e3")
    schedule: str = choice(
        "bounded", ("bounded", "plain"),
        "step sizes: plain is rate/sqrt(t); bounded also keeps them below the limit given by the curvature of a smooth "
        "loss",
    )  # fmt: skip


@dataclass(frozen=True)
class MultipliersOptions(SolverOptions):
    """Options of the method of multipliers."""

    width: float = option(1.0, "width over which the kinks of the loss are smoothed in the first iteration, in scores")

    def checked(self) -> MultipliersOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        super().checked()
        if not 1e-6 <= self.width <= 1e6:
            raise OptionError(f"width={self.width!r} is not between 1e-6 and 1e6")
        return self


@dataclass(frozen=True)
class LeastSquaresSolverOptions(SolverOptions):
    """Options of generalized least squares."""

    method: str = choice(
        "quasi_newton", ("plain", "accelerated", "quasi_newton"),
        "how the d x d matrix is used: plain updates, accelerated by momentum, or quasi_newton",
    )  # fmt: skip


@dataclass(frozen=True)
class AdmmOptions(SolverOptions):
    """Options of consensus ADMM."""

    shards: int | None = option(None, SHARDS_HELP)
    rho: float | None = option(None, "weight of the disagreement of the shards, a positive number; None: from the data")
    relaxation: float = option(1.6, "over-relaxation, a number from 1 to less than 2; 1 is none")
    adaptive: bool = option(True, "change rho so that both residuals decrease alike")

    def checked(self) -> AdmmOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        super().checked()
        if not 1.0 <= self.relaxation < 2.0:
            raise OptionError(f"relaxation={self.relaxation!r} is not from 1 to less than 2")
        return self


@dataclass(frozen=True)
class AveragingOptions(SolverOptions):
    """Options of model averaging."""

    shards: int | None = option(None, SHARDS_HELP)
    rounds: int = option(1, "number of times that models are fitted and averaged; all but the first start at the mean")
    local_iter: int | None = option(
        None, "largest number of iterations of the fit of a shard per round; None: to tol with one round, else 10"
    )
    combine: str = choice("mean", ("mean", "vote"), "mean of the models, or vote: every model predicts, and most win")

    def checked(self) -> AveragingOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        super().checked()
        if self.combine == "vote" and self.rounds > 1:
            raise OptionError(
                f"combine='vote' keeps the models apart, and rounds={self.rounds!r} averages them: use one"
            )
        return self


@dataclass(frozen=True)
class HybridOptions(SolverOptions):
    """Options of the hybrid of online learning and L-BFGS."""

    shards: int | None = option(None, SHARDS_HELP)
    passes: int = option(1, "number of online passes before L-BFGS, each of which ends with an average")
    rate: float | None = option(None, "learning rate of the online passes, a positive number; None tries some")


#: Options of the solvers of lineal by name; solvers that are not listed have none.
OPTIONS: dict[str, type[SolverOptions]] = {
    "admm": AdmmOptions,
    "averaging": AveragingOptions,
    "hybrid": HybridOptions,
    "newton": NewtonOptions,
    "dual_cd": DualOptions,
    "block_cd": BlockOptions,
    "fista": FistaOptions,
    "fobos": FobosOptions,
    "multipliers": MultipliersOptions,
    "least_squares": LeastSquaresSolverOptions,
}


def text() -> str:
    """All options of all solvers with their possible values, for help texts."""
    return "; ".join(f"{solver}: {names_and_values(options)}" for solver, options in sorted(OPTIONS.items()))


def describe_all(indent: str = "    ") -> str:
    """All options of all solvers with their help, for docstrings."""
    parts = [f"{indent}{solver}\n{describe(options, indent + '    ')}" for solver, options in sorted(OPTIONS.items())]
    return "\n".join(parts)


def owners(name: str) -> list[str]:
    """Names of the solvers that have an option of this name."""
    return [solver for solver, options in sorted(OPTIONS.items()) if name in {field.name for field in fields(options)}]
