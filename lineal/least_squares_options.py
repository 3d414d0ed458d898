"""Options of least-squares and stagewise models: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from lineal import features
from lineal.data.options import option
from lineal.errors import OptionError, unknown_value
from lineal.options import Options

LINKS = ("softmax", "sigmoid", "identity")

#: By the option `accelerated`.
METHODS = {False: "plain", True: "accelerated", "quasi_newton": "quasi_newton"}

UPDATES = ("linear", "calibrated", "softmax")

#: Columns of a dense X beyond which the automatic generator projects to principal components first.
MANY_COLUMNS = 64

#: Generators where none is given, for dense rows of many and of few columns and for sparse rows. Chosen on held-out
#: rows of MNIST's training set: orthogonal frequencies took the error of 8 blocks of 2048 from 1.95 to 1.91 %, a stress
#: of 0.3 in place of 0.15 changed nothing with many blocks and helped with few.
DENSE_MANY, DENSE_FEW, SPARSE = "pca:stress=0.3+fourier:variant=orthogonal", "fourier:variant=orthogonal", "frequency"


def automatic(is_sparse: bool, columns: int) -> str:
    """The generator of rows for which none is given."""
    return SPARSE if is_sparse else DENSE_MANY if columns > MANY_COLUMNS else DENSE_FEW


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
    accelerated: bool | str = option(
        "quasi_newton", "how the matrix is used: quasi_newton, True for Nesterov's momentum, False for plain steps"
    )
    alpha: float = option(1e-6, "ridge, alpha/2 times the squares of the weights beside the mean loss")
    tol: float | None = option(None, "stop at this relative duality gap; None means 1e-3. Calibrated fits have none")
    fit_intercept: bool = option(True, "fit an intercept; it is never penalised")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of weights of the classes")  # noqa: RUF009
    max_iter: int | None = option(None, "iterations at most; None means 1000, and 50 for calibrated fits")
    max_time: float | None = option(None, "seconds at most; the best model so far is kept")
    n_jobs: int | None = option(None, "threads; None or -1 means all cores")
    verbose: int = option(0, "1 shows progress: a bar on a terminal, lines elsewhere")

    def checked(self) -> LeastSquaresOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        if isinstance(self.link, str) and self.link not in LINKS:
            raise unknown_value("link", self.link, LINKS)
        if not (self.link is None or isinstance(self.link, str) or hasattr(self.link, "lipschitz")):
            raise OptionError(f"link={self.link!r} is neither a name ({', '.join(LINKS)}) nor a lineal.Link")
        if type(self.accelerated) not in (bool, str) or self.accelerated not in METHODS:
            raise OptionError(f"accelerated={self.accelerated!r} is none of True, False and 'quasi_newton'")
        if self.calibration is not None:
            from lineal.solvers.parts.basis import functions

            functions(self.calibration)
            if self.link not in (None, "identity"):
                raise OptionError(
                    f"calibration learns the link, and link={self.link!r} fixes it: leave out one of them"
                )
            if self.tol is not None:
                raise OptionError(
                    f"tol={self.tol!r} with calibration: it minimises no convex objective, and ends when an iteration "
                    "gains next to nothing of the mean squared error; leave out tol"
                )
            if self.accelerated != "quasi_newton":
                raise OptionError("accelerated has no meaning with calibration, which solves its systems exactly")
        self.need_common("alpha", "max_time")
        for name in ("tol", "max_iter"):
            if getattr(self, name) is not None:
                self.need_common(name)
        self.need_flags("fit_intercept")
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self


@dataclass(frozen=True)
class StagewiseOptions(Options):
    """How a stagewise model is trained."""

    generator: Any = option(  # noqa: RUF009
        None, f"what makes features: a generator of lineal.features, or a text like 'pca:n_components=50+fourier', of "
        f"{', '.join(features.names())}; None means pca+fourier for dense rows (fourier for up to {MANY_COLUMNS} "
        "columns), frequency for sparse ones",
    )  # fmt: skip
    update: str = option("linear", f"how a block is fitted: {', '.join(UPDATES)}")
    block_size: int = option(2048, "features of a block")
    n_blocks: int = option(20, "blocks at most")
    alpha: float = option(1e-7, "ridge of a block, alpha/2 times the squares of its weights beside the mean loss")
    inner_iter: int | None = option(None, "iterations within a block of update 'softmax'; None means 50")
    validation_fraction: float | None = option(None, "share of the rows to hold out, to stop when they gain no more")
    patience: int | None = option(None, "blocks without a gain of the held-out rows that end the fit; None means 5")
    n_models: int = option(1, "models over disjoint blocks of features, whose scores are averaged")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of weights of the classes")  # noqa: RUF009
    precision: str = option("float32", "precision of features and weights: float32 or float64")
    block_memory: int = option(1 << 30, "bytes in which the features of one block may be kept; beyond, they are remade")
    max_time: float | None = option(None, "seconds at most; the blocks so far are kept")
    n_jobs: int | None = option(None, "threads; None or -1 means all cores")
    random_state: int | None = option(None, "seed of the features and of the rows held out")
    verbose: int = option(0, "1 shows progress: a bar on a terminal, lines elsewhere")

    def checked(self) -> StagewiseOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        if self.update not in UPDATES:
            raise unknown_value("update", self.update, UPDATES)
        if self.precision not in ("float32", "float64"):
            raise unknown_value("precision", self.precision, ("float32", "float64"))
        if isinstance(self.generator, str):
            features.parse(self.generator)
        self.need_common("alpha", "max_time", "random_state")
        for name in ("block_size", "n_models"):
            self.need(name, lambda v: operator.index(v) >= 1, "a whole number ≥ 1")
        for name in ("n_blocks", "block_memory"):
            self.need(name, lambda v: operator.index(v) >= 0, "a whole number ≥ 0")
        if self.inner_iter is not None:
            self.need("inner_iter", lambda v: operator.index(v) >= 1, "a whole number ≥ 1, or None")
            if self.update != "softmax":
                raise OptionError(f"inner_iter={self.inner_iter} is for update 'softmax', not {self.update!r}")
        if self.validation_fraction is not None:
            self.need("validation_fraction", lambda v: 0.0 < v < 1.0, "a share between 0 and 1, or None")
        if self.patience is not None:
            self.need("patience", lambda v: operator.index(v) >= 1, "a whole number ≥ 1, or None")
            if self.validation_fraction is None:
                raise OptionError(f"patience={self.patience} needs rows to measure on: give validation_fraction")
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self
