"""Options of least-squares models: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lineal.engine.choice import check_engine
from lineal.errors import OptionError, unknown_value
from lineal.system.options import Options, checkpoint_option, need_checkpoint, option
from lineal.system.validation import AUTO, FEWEST_ROWS, MOST_HELD_OUT

LINKS = ("softmax", "sigmoid", "identity")

#: By the option `accelerated`.
METHODS = {False: "plain", True: "accelerated", "quasi_newton": "quasi_newton"}

#: Links whose loss is quadratic: one iteration reaches the minimum, and there is no number to choose.
ONE_ITERATION = ("identity",)


@dataclass(frozen=True)
class LeastSquaresOptions(Options):
    """How a model of least squares is trained."""

    link: Any = option(  # noqa: RUF009
        None, f"link of scores and expected labels: {', '.join(LINKS)}, or a lineal.Link; None means softmax, which is "
        "the sigmoid for two classes and for label sets (identity with calibration)",
    )  # fmt: skip
    calibration: Any = option(  # noqa: RUF009
        None, "learn the link: 'polynomial' for y, y^2 and y^3, or a list of functions of (n, k) predictions",
    )  # fmt: skip
    accelerated: bool | str | None = option(
        None, "method: quasi_newton, True for Nesterov's momentum, False for plain iterations; None means momentum if "
        "held-out rows choose the number of iterations, else quasi_newton",
    )  # fmt: skip
    alpha: float = option(1e-6, "ridge: alpha/2 times the sum of squared weights is added to the mean loss")
    tol: float | None = option(None, "stop at this relative duality gap; None means 1e-3. Calibrated fits have none")
    fit_intercept: bool = option(True, "fit an intercept; it is never penalised")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of class weights")  # noqa: RUF009
    max_iter: int | None = option(None, "maximum number of iterations; None means 1000, or 50 for calibrated fits")
    validation_fraction: float | str | None = option(
        AUTO, "fraction of rows to hold out, on which the number of iterations is chosen before all rows are fitted. "
        f"auto is a tenth, at most {MOST_HELD_OUT:,} rows; none of fewer than {FEWEST_ROWS} rows, where tol or "
        "max_iter is given, for quasi_newton, link identity and calibration; 0 holds out none",
    )  # fmt: skip
    max_time: float | None = option(None, "time limit in seconds; the best model so far is kept")
    n_jobs: int | None = option(None, "number of threads; None or -1 means all cores")
    engine: str = option(
        "auto", "where the rows are: local (memory of this process), file (converted files, read for every pass), dask "
        "(a cluster); auto takes dask for Dask collections and with an active client, and file for large files",
    )  # fmt: skip
    memory_budget: str | int | None = option(
        None, "memory of this process for rows in files, for example 2GB; None means half of what is available"
    )
    verbose: int = option(0, "1 shows progress: a bar on a terminal, lines elsewhere")
    checkpoint: str | None = checkpoint_option()

    def _no_number_to_choose(self) -> str | None:
        """Why these options leave no number of iterations to choose; None if they do."""
        if self.calibration is not None:
            return "which calibrated fits do not have: they end when an iteration hardly reduces the error"
        if self.link in ONE_ITERATION:
            return f"and link={self.link!r} needs one"
        if self.max_iter is not None:
            return f"and max_iter={self.max_iter!r} gives it: leave out one of them"
        if self.tol is not None:
            return f"and tol={self.tol!r} says when to end: leave out one of them"
        return None

    @property
    def validation(self) -> float | str | None:
        """`validation_fraction`, or None where there is nothing to choose."""
        if self.validation_fraction == AUTO and (
            self.accelerated == "quasi_newton" or self._no_number_to_choose() is not None
        ):
            return None
        return self.validation_fraction or None

    def checked(self) -> LeastSquaresOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        if isinstance(self.link, str) and self.link not in LINKS:
            raise unknown_value("link", self.link, LINKS)
        if not (self.link is None or isinstance(self.link, str)):
            from lineal.least_squares.links import Link

            if not isinstance(self.link, Link):
                raise OptionError(f"link={self.link!r} is neither a name ({', '.join(LINKS)}) nor a lineal.Link")
        if self.accelerated is not None and (
            type(self.accelerated) not in (bool, str) or self.accelerated not in METHODS
        ):
            raise OptionError(f"accelerated={self.accelerated!r} is none of True, False, 'quasi_newton' and None")
        if self.calibration is not None:
            from lineal.numerics.basis import functions

            functions(self.calibration)
            if self.link not in (None, "identity"):
                raise OptionError(
                    f"calibration learns the link, and link={self.link!r} fixes it: leave out one of them"
                )
            if self.tol is not None:
                raise OptionError(
                    f"tol={self.tol!r} with calibration: it minimises no convex objective, and ends when an iteration "
                    "hardly reduces the mean squared error; leave out tol"
                )
            if self.accelerated not in (None, "quasi_newton"):
                raise OptionError("accelerated does not apply to calibration, which solves its systems exactly")
        if self.validation_fraction not in (None, AUTO):
            self.need("validation_fraction", lambda v: 0.0 <= v < 1.0, "a share between 0 and 1, 'auto', or None")
            why = self._no_number_to_choose()
            if self.validation_fraction and why is not None:
                raise OptionError(
                    f"validation_fraction={self.validation_fraction!r} chooses the number of iterations, {why}"
                )
        self.need_common("alpha", "max_time")
        for name in ("tol", "max_iter"):
            if getattr(self, name) is not None:
                self.need_common(name)
        self.need_flags("fit_intercept")
        check_engine(self.engine, self.memory_budget)
        need_checkpoint(self.checkpoint)
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self
