"""Options of stagewise models: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial
from typing import Any

from lineal import features
from lineal.engine.choice import check_engine
from lineal.errors import OptionError, unknown_value
from lineal.solvers.stagewise import UPDATES
from lineal.system.options import Options, checkpoint_option, need_checkpoint, option
from lineal.system.validation import AUTO, FEWEST_ROWS, MOST_HELD_OUT

#: Columns of a dense X beyond which the automatic generator projects to principal components first.
MANY_COLUMNS = 64

#: Generators where none is given, for dense rows of many and of few columns and for sparse rows. Chosen on held-out
#: rows of MNIST's training set: orthogonal frequencies took the error of 8 stages of 2048 from 1.95 to 1.91 %, a stress
#: of 0.3 in place of 0.15 changed nothing with many stages and helped with few.
DENSE_MANY, DENSE_FEW, SPARSE = "pca:stress=0.3+fourier:variant=orthogonal", "fourier:variant=orthogonal", "frequency"


def automatic(is_sparse: bool, columns: int) -> str:
    """Default generator for rows of this kind."""
    return SPARSE if is_sparse else DENSE_MANY if columns > MANY_COLUMNS else DENSE_FEW


@dataclass(frozen=True)
class StagewiseOptions(Options):
    """How a stagewise model is trained."""

    generator: Any = option(  # noqa: RUF009
        None, f"what makes features: a generator of lineal.features, or a text like 'pca:n_components=50+fourier', of "
        f"{', '.join(features.names())}; None means pca+fourier for dense rows (fourier for up to {MANY_COLUMNS} "
        "columns), frequency for sparse ones",
    )  # fmt: skip
    update: str = option("linear", f"how a stage is fitted: {', '.join(UPDATES)}")
    block_size: int | None = option(
        None, "number of features per stage; None means one for the numbers of rows and columns"
    )
    n_blocks: int | None = option(
        None, "maximum number of stages; None means one for the numbers of rows and classes, at most 20"
    )
    alpha: float | None = option(
        None, "ridge of a stage: alpha/2 times the sum of squared weights is added to the mean loss; None takes the "
        "one with the least squared error on held-out rows, or 1e-7 if none are held out and for update 'softmax'",
    )  # fmt: skip
    inner_iter: int | None = option(None, "number of iterations per stage with update 'softmax'; None means 50")
    validation_fraction: float | str | None = option(
        AUTO, "fraction of rows to hold out; the fit stops when their error no longer decreases. auto is a tenth, at "
        f"most {MOST_HELD_OUT:,} rows, and none of fewer than {FEWEST_ROWS} rows; 0 holds out none",
    )  # fmt: skip
    patience: int | None = option(
        None, "stop after this many stages without a lower error on held-out rows; None means 3"
    )
    n_models: int = option(1, "number of models with different features, whose scores are averaged")
    class_weight: str | dict[Any, float] | None = option(None, "None, 'balanced', or a dict of class weights")  # noqa: RUF009
    precision: str = option("float32", "precision of features and weights: float32 or float64")
    block_memory: int = option(
        1 << 30, "number of bytes for the features of a stage; if they need more, they are computed in every pass"
    )
    max_time: float | None = option(None, "time limit in seconds; the stages so far are kept")
    n_jobs: int | None = option(None, "number of threads; None or -1 means all cores")
    engine: str = option(
        "auto", "where the rows are: local (memory of this process), file (converted files, read for every pass), dask "
        "(a cluster); auto takes dask for Dask collections and with an active client, and file for large files",
    )  # fmt: skip
    memory_budget: str | int | None = option(
        None, "memory of this process for rows in files, for example 2GB; None means half of what is available"
    )
    random_state: int | None = option(None, "seed of the features and of the rows held out")
    verbose: int | None = option(
        None, "1 shows progress: a bar on a terminal, lines elsewhere; 0 shows none; None shows a bar on a terminal"
    )
    checkpoint: str | None = checkpoint_option()

    @property
    def size(self) -> int:
        """`block_size`, once it is chosen (`lineal.stagewise.plan`)."""
        assert self.block_size is not None
        return int(self.block_size)

    @property
    def count(self) -> int:
        """`n_blocks`, once it is chosen."""
        assert self.n_blocks is not None
        return int(self.n_blocks)

    def checked(self) -> StagewiseOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        if self.update not in UPDATES:
            raise unknown_value("update", self.update, UPDATES)
        if self.precision not in ("float32", "float64"):
            raise unknown_value("precision", self.precision, ("float32", "float64"))
        if isinstance(self.generator, str):
            features.parse(self.generator)
        self.need_common("max_time", "random_state")
        if self.alpha is not None:
            self.need_common("alpha")
        for name, least in (("block_size", 1), ("n_models", 1), ("n_blocks", 0), ("block_memory", 0)):
            may_be_none = name in ("block_size", "n_blocks")
            if getattr(self, name) is not None or not may_be_none:
                also = ", or None" if may_be_none else ""
                self.need(name, partial(_is_at_least, least), f"an integer ≥ {least}{also}")
        if self.inner_iter is not None:
            self.need("inner_iter", lambda v: operator.index(v) >= 1, "an integer ≥ 1, or None")
            if self.update != "softmax":
                raise OptionError(f"inner_iter={self.inner_iter} is for update 'softmax', not {self.update!r}")
        if self.validation_fraction not in (None, AUTO):
            self.need("validation_fraction", lambda v: 0.0 <= v < 1.0, "a share between 0 and 1, 'auto', or None")
        if self.patience is not None:
            self.need("patience", lambda v: operator.index(v) >= 1, "an integer ≥ 1, or None")
            if not self.validation_fraction:
                raise OptionError(f"patience={self.patience} needs rows to measure on: give validation_fraction")
        check_engine(self.engine, self.memory_budget)
        need_checkpoint(self.checkpoint)
        if self.verbose is not None and self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        return self


def _is_at_least(least: int, value: Any) -> bool:
    return operator.index(value) >= least
