"""`StagewiseClassifier`: stages of generated features, each fitted to the residual of those before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineal.linear.rows import rows_of
from lineal.models.estimator import ModelClassifier
from lineal.stagewise.fit import fit_stagewise, fit_stagewise_rows
from lineal.stagewise.options import StagewiseOptions
from lineal.system.options import describe


class StagewiseClassifier(ModelClassifier):
    __doc__ = f"""Classifier by stagewise regression: close to a kernel machine, for a few least-squares fits.

    Takes binary and multi-class labels of any type and (n, k) indicator matrices; dense X of any numeric type
    (converted a chunk of rows at a time; float64 as a whole) or sparse X; converted files that are larger than memory,
    and Dask collections. Features are generated stage by stage and never stored; the model keeps seeds and weights.
    Of rows that are not in this process, generators learn from a sample and from sums over all rows
    (`lineal.features.elsewhere`).

    Parameters
    ----------
{describe(StagewiseOptions)}
    warm_start : default False
        Add stages to the last fit, up to n_blocks in all, where labels, columns, update, precision, seed and the
        generator's parameters are the same; else the fit begins anew.
    callbacks : default ()
        Functions called with a `Snapshot` after each stage; returning True ends the fit.

    Attributes
    ----------
    classes_ : the labels.
    generator_ : the generator, prepared.
    alpha_, block_size_, n_blocks_ : the ridge, the features per stage and the largest number of stages, as given or as
        chosen.
    history_ : one dict per stage: iteration, seconds, objective (mean squared error, or mean logistic loss), validation
        and validation_loss (error and loss of the held-out rows), member.
    certificate_ : of kind "none": no single convex objective is minimised.
    n_iter_, status_, model_ : number of stages, how the fit ended, the model.
    """

    _dtypes = "numeric"
    _sparse = ("csr",)

    def __init__(
        self,
        generator: Any = None,
        update: str = "linear",
        block_size: int | None = None,
        n_blocks: int | None = None,
        alpha: float | None = None,
        inner_iter: int | None = None,
        validation_fraction: float | str | None = "auto",
        patience: int | None = None,
        n_models: int = 1,
        class_weight: Any = None,
        precision: str = "float32",
        block_memory: int = 1 << 30,
        max_time: float | None = None,
        n_jobs: int | None = None,
        engine: str = "auto",
        memory_budget: str | int | None = None,
        random_state: int | None = None,
        verbose: int | None = None,
        checkpoint: str | None = None,
        warm_start: bool = False,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.generator = generator
        self.update = update
        self.block_size = block_size
        self.n_blocks = n_blocks
        self.alpha = alpha
        self.inner_iter = inner_iter
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.n_models = n_models
        self.class_weight = class_weight
        self.precision = precision
        self.block_memory = block_memory
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.engine = engine
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.callbacks = callbacks

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> StagewiseClassifier:
        """Train on X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix.

        X and y can also be Dask collections; or X is a path, a glob or a list of files, which have the labels, and y
        is left out.
        """
        options = self._options(StagewiseOptions)
        start = self._model_or_none() if self.warm_start else None
        rows = rows_of(X, y, self.engine, self.memory_budget, sample_weight=sample_weight)
        if rows is not None:
            model, run = fit_stagewise_rows(rows, options, start=start, callbacks=self.callbacks)
            self._keep_from(rows, model, run)
        else:
            X, y, sample_weight = self._validated(X, y, sample_weight)
            model, run = fit_stagewise(
                X, y, options, sample_weight=sample_weight, start=start, callbacks=self.callbacks
            )
            self._keep(model, run)
        self.n_iter_ = max(1, model.n_blocks)
        self._warn(run)
        return self

    @property
    def generator_(self) -> Any:
        """The generator, prepared."""
        return self._fitted().generator

    @property
    def alpha_(self) -> float:
        """The ridge of the stages."""
        return float(self._fitted().options["alpha"])

    @property
    def block_size_(self) -> int:
        """Number of features per stage."""
        return int(self._fitted().options["block_size"])

    @property
    def n_blocks_(self) -> int:
        """Largest number of stages."""
        return int(self._fitted().options["n_blocks"])

    @classmethod
    def search(cls, X: Any, y: Any = None, **options: Any) -> StagewiseClassifier:
        """An estimator, not fitted, whose bandwidth, ridge and stage size were chosen on a sample of the rows.

        `sample_weight` and `sample_rows` (12,000 by default) are for the search; all else are parameters of the
        estimator, which stay as given: of alpha, block_size and the bandwidth or scale of the generator, those that
        are not given are chosen.
        """
        from lineal.stagewise.search import SAMPLE_ROWS, tuned, tuned_rows

        weights, most = options.pop("sample_weight", None), options.pop("sample_rows", SAMPLE_ROWS)
        estimator = cls(**options)
        wanted = estimator._options(StagewiseOptions)
        rows = rows_of(X, y, wanted.engine, wanted.memory_budget, sample_weight=weights)
        if rows is not None:
            found = tuned_rows(rows, wanted, most, keep=set(options))
        else:
            X, y, weights = cls()._validated(X, y, weights)
            found = tuned(X, y, wanted, weights, most, keep=set(options))
        return estimator.set_params(generator=found.generator, alpha=found.alpha, block_size=found.block_size)

    def _why_no_probabilities(self) -> str | None:
        if self.update == "softmax":
            return None
        return f"update {self.update!r} gives scores, not probabilities: use update='softmax'"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
