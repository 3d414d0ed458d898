"""Options of the solvers that have some; estimators, command line and documentation read them here.

They stand apart from the algorithms because help texts must not wait for Numba.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from lineal.errors import OptionError
from lineal.system.options import describe, option
from lineal.system.solver_options import SolverOptions, choice, names_and_values


@dataclass(frozen=True)
class NewtonOptions(SolverOptions):
    """Options of Newton's method."""

    globalisation: str = choice(
        "line_search", ("line_search", "trust_region"), "what keeps steps from going too far: line_search, trust_region"
    )


@dataclass(frozen=True)
class DualOptions(SolverOptions):
    """Options of dual coordinate descent."""

    shrinking: bool = option(True, "leave out rows whose dual variables stay at their bounds, until the end")


@dataclass(frozen=True)
class BlockOptions(SolverOptions):
    """Options of block coordinate descent. All but the method are for the methods of Blondel, Seki & Uehara (2013)."""

    method: str = choice(
        "working_sets", ("working_sets", "cyclic", "random", "parallel"),
        "which groups are visited, and in which order: working_sets; or, as in the paper, all of them: cyclic, random "
        "(drawn with replacement) or parallel (many random ones at once)",
    )  # fmt: skip
    step: str | None = choice(
        None, ("line_search", "constant"),
        "length of the paper's steps: line_search or constant; None means line_search for cyclic, else constant",
    )  # fmt: skip
    constant: str = choice(
        "tight", ("tight", "paper"), "bound of the curvature for step=constant: tight, or the looser one of the paper"
    )
    shrinking: bool = option(False, "leave out groups that are zero and far from leaving it (cyclic and random)")
    rule: str = choice(
        "gap", ("gap", "sum", "max"),
        "when the paper's methods end: gap, the certificate; or the sum or max of the violations of a sweep, relative "
        "to the first sweep",
    )  # fmt: skip

    @property
    def is_paper(self) -> bool:
        """Whether the method is one of the paper's."""
        return self.method != "working_sets"

    @property
    def searches(self) -> bool:
        """Whether a line search finds the length of the paper's steps."""
        return self.step == "line_search" or (self.step is None and self.method == "cyclic")

    def checked(self) -> BlockOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        super().checked()
        if not self.is_paper:
            if self != BlockOptions():
                raise OptionError(
                    "step, constant, shrinking and rule are for method='cyclic' or 'random' or 'parallel'"
                )
            return self
        if self.searches and self.constant != "tight":
            raise OptionError("constant has no meaning with step='line_search': use step='constant'")
        if self.method == "parallel" and self.searches:
            raise OptionError("method='parallel' takes step='constant': a search sees one group at a time")
        if self.method == "parallel" and self.shrinking:
            raise OptionError("shrinking is for method='cyclic' and method='random'")
        return self


@dataclass(frozen=True)
class FistaOptions(SolverOptions):
    """Options of FISTA."""

    step: str = choice(
        "line_search", ("line_search", "constant"),
        "how the step length is found: line_search, or constant, from a bound of the curvature that always holds",
    )  # fmt: skip
    constant: str = choice(
        "spectral", ("spectral", "trace"),
        "bound for step=constant: spectral, from the largest eigenvalue of X'X, or the looser trace",
    )  # fmt: skip
    restart: bool = option(True, "restart the momentum whenever it points uphill; False is FISTA as first published")

    def checked(self) -> FistaOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        super().checked()
        if self.step == "line_search" and self.constant != "spectral":
            raise OptionError("constant has no meaning with step='line_search': use step='constant'")
        return self


@dataclass(frozen=True)
class FobosOptions(SolverOptions):
    """Options of FOBOS."""

    rate: float | None = option(None, "step length of the first row, a positive number; None tries 1e-3 to 1e3")
    schedule: str = choice(
        "bounded", ("bounded", "plain"),
        "lengths of the steps: plain is rate/sqrt(t); bounded also keeps them below what the curvature of a smooth "
        "loss allows",
    )  # fmt: skip


@dataclass(frozen=True)
class LeastSquaresSolverOptions(SolverOptions):
    """Options of generalized least squares."""

    method: str = choice(
        "quasi_newton", ("plain", "accelerated", "quasi_newton"),
        "how the d x d matrix is used: plain steps, accelerated by momentum, or quasi_newton",
    )  # fmt: skip


#: Options of lineal's own solvers by name; one that is not here has none.
OPTIONS: dict[str, type[SolverOptions]] = {
    "newton": NewtonOptions,
    "dual_cd": DualOptions,
    "block_cd": BlockOptions,
    "fista": FistaOptions,
    "fobos": FobosOptions,
    "least_squares": LeastSquaresSolverOptions,
}


def text() -> str:
    """All options of all solvers, with the values that they take: for help texts."""
    return "; ".join(f"{solver}: {names_and_values(options)}" for solver, options in sorted(OPTIONS.items()))


def describe_all(indent: str = "    ") -> str:
    """All options of all solvers with their help, for docstrings."""
    parts = [f"{indent}{solver}\n{describe(options, indent + '    ')}" for solver, options in sorted(OPTIONS.items())]
    return "\n".join(parts)


def owners(name: str) -> list[str]:
    """Solvers that have an option of this name."""
    return [solver for solver, options in sorted(OPTIONS.items()) if name in {field.name for field in fields(options)}]
