"""`OnlineClassifier` and `OnlineRegressor`: one pass or a few passes over rows from arrays or from a stream."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.inputs import Checked, is_lazy
from lineal.core.scikit import BaseEstimator, ConvergenceWarning, RegressorMixin, check_is_fitted
from lineal.core.threads import thread_count
from lineal.data.source import expand, is_path
from lineal.errors import DataError, OptionError
from lineal.models.estimator import ModelClassifier, column_names
from lineal.models.lazy import lazily
from lineal.online import interactions
from lineal.online.ending import ONE_PASS, OnlineRun
from lineal.online.fit import array_blocks, fit_online
from lineal.online.from_files import FileLearner, Labels
from lineal.online.learner_rows import ArrayRows, array_rows
from lineal.online.on_threads import OnThreads
from lineal.online.options import TUNE, OnlineOptions
from lineal.online.parallel import learn_together
from lineal.online.shuffled import ONCE, Shuffle
from lineal.online.trainer import CLASSES, NUMBERS, SETS, Trainer
from lineal.problem.labels import check_present, find_classes, label_sets
from lineal.problem.progress import ProgressiveLines
from lineal.problem.validation import ScoresChecked, validated, validated_weights
from lineal.system.options import describe

_PARAMETERS = f"""
    Parameters
    ----------
{describe(OnlineOptions)}
    namespaces : dict or None, default None
        Columns (numbers or slices) of X by namespace, for the namespaces that `interactions` name.

    Attributes
    ----------
    history_ : progressive loss (of every example before it was learned from) at doubling numbers of examples: pass,
        examples, average_loss, since_last, held_out_loss, parents.
    model_ : the `lineal.OnlineModel`, to save, to list monomials, or to predict with.
    rate_ : the learning rate; the best one where `rate` is 'tune'.
    """


class _Online(BaseEstimator):
    """Common part of both estimators: the trainer that `partial_fit` continues; None before the first fit."""

    _trainer: Trainer | None = None

    def __init__(
        self,
        loss: str | None = None,
        rate: float | str = 0.5,
        power_t: float = 0.5,
        initial_t: float = 0.0,
        adaptive: bool = True,
        normalised: bool = True,
        invariant: bool = True,
        l1: float = 0.0,
        l2: float = 0.0,
        tau: float = 0.5,
        bits: int = 18,
        ngram: str | int = 1,
        skips: int = 0,
        passes: int = 1,
        hold_out: int = 10,
        patience: int = 3,
        shuffle: bool = False,
        shuffle_buffer: int = 32768,
        random_state: int | None = None,
        expansion: str | None = None,
        interactions: Any = None,
        epochs: int = 6,
        growth: float = 1.0,
        heuristic: str = "weight",
        fallback: bool = False,
        picky: bool = False,
        schedule: str = "auto",
        caution: float = 0.3,
        max_time: float | None = None,
        learners: int = 1,
        engine: str = "auto",
        n_jobs: int | None = None,
        theorem: bool = False,
        verbose: int = 0,
        checkpoint: str | None = None,
        namespaces: dict[str, Any] | None = None,
    ) -> None:
        self.loss = loss
        self.rate = rate
        self.power_t = power_t
        self.initial_t = initial_t
        self.adaptive = adaptive
        self.normalised = normalised
        self.invariant = invariant
        self.l1 = l1
        self.l2 = l2
        self.tau = tau
        self.bits = bits
        self.ngram = ngram
        self.skips = skips
        self.passes = passes
        self.hold_out = hold_out
        self.patience = patience
        self.shuffle = shuffle
        self.shuffle_buffer = shuffle_buffer
        self.random_state = random_state
        self.expansion = expansion
        self.interactions = interactions
        self.epochs = epochs
        self.growth = growth
        self.heuristic = heuristic
        self.fallback = fallback
        self.picky = picky
        self.schedule = schedule
        self.caution = caution
        self.max_time = max_time
        self.learners = learners
        self.engine = engine
        self.n_jobs = n_jobs
        self.theorem = theorem
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.namespaces = namespaces

    def _parameters(self) -> OnlineOptions:
        names = [entry.name for entry in dataclasses.fields(OnlineOptions)]
        return OnlineOptions(**{name: getattr(self, name) for name in names}).checked()

    def _kinds(self, options: OnlineOptions, width: int) -> np.ndarray | None:
        if options.ngram != 1:
            raise OptionError(
                f"ngram={options.ngram!r} is for files of VW text, and X is an array: make the columns of lists of "
                "tokens with lineal.features.HashedTokens"
            )
        if options.interactions is None:
            if self.namespaces is not None:
                raise OptionError("namespaces have an effect with interactions only: set interactions")
            return None
        names = interactions.names_of(interactions.parse(options.interactions))
        return interactions.kinds_of_columns(self.namespaces or {}, names, width)

    def _learn_all(self, X: Any, y: Any, weights: Any, kind: str, classes: Any) -> Any:
        options = self._parameters()
        if options.engine == "dask":
            raise OptionError(
                f"engine='dask' needs a Dask collection or the path of a file, and X is a {type(X).__name__}: use "
                "engine='auto'"
            )
        if options.shuffle_buffer != OnlineOptions().shuffle_buffer:
            raise OptionError("shuffle_buffer is for files and Dask collections: arrays need no buffer; leave it out")
        kinds = self._kinds(options, X.shape[1])
        if options.learners > 1:
            how = Shuffle.of(options, kind, ONCE) if options.shuffle else None
            place = OnThreads(array_rows(X, y, weights, kinds, options.learners, how), thread_count(options.n_jobs))
            trainer, run, _ = learn_together(place, options, kind, classes=classes, width=X.shape[1])
        else:
            rows = ArrayRows(X, y, weights, kinds, 0, X.shape[0])
            trainer, run = fit_online(
                rows.blocks, options, kind, classes=classes, n_examples=X.shape[0], width=X.shape[1],
                shuffled=rows.shuffled,
            )  # fmt: skip
        self._hold_run(trainer, run, kinds)
        return self

    def _learn_partitions(self, X: Any, y: Any, sample_weight: Any, are_numbers: bool) -> Any:
        """Learn from a Dask collection, on the workers that have its partitions."""
        from lineal.online.partitions import Partitions

        options = self._parameters()
        partitions = Partitions.of(X, y, sample_weight, options, are_numbers)
        kinds = self._kinds(options, partitions.width)
        trainer, run, _ = learn_together(
            partitions.place(kinds), options, partitions.kind, classes=partitions.classes, width=partitions.width
        )
        self.__dict__.pop("feature_names_in_", None)
        if partitions.feature_names is not None:
            self.feature_names_in_ = np.asarray(partitions.feature_names, dtype=object)
        self.n_features_in_ = partitions.width
        self._hold_run(trainer, run, kinds)
        return self

    def _hold_run(self, trainer: Trainer, run: OnlineRun, kinds: Any) -> None:
        """Set the attributes of a fit, and warn if it ended early."""
        self._hold(trainer, run.history, run.status, kinds)
        if run.needs_warning:
            warnings.warn(run.message, ConvergenceWarning, stacklevel=4)

    def _learn_files(self, X: Any, y: Any, sample_weight: Any, are_numbers: bool) -> Any:
        """Learn from files as a stream, in constant memory."""
        if y is not None or sample_weight is not None:
            raise DataError("X names a file, so y and sample_weight must be None: they are read from the file")
        if self.namespaces is not None:
            raise OptionError("namespaces are for arrays: a file has its own")
        learner = FileLearner(expand(X), self._parameters(), {}, Labels(are_numbers=are_numbers))
        model, trainer, run = learner.fit()
        self.__dict__.pop("feature_names_in_", None)
        if model.feature_names is not None:
            self.feature_names_in_ = np.asarray(model.feature_names, dtype=object)
        self.n_features_in_ = model.n_features
        self._hold_run(trainer, run, None)
        self.model_ = model
        return self

    def _learn_more(self, X: Any, y: Any, weights: Any, kind: str, classes: Any) -> Any:
        options = self._parameters()
        if options.learners > 1:
            raise OptionError(f"learners={options.learners} with partial_fit: one learner learns; set learners=1")
        if options.rate == TUNE:
            raise OptionError("rate='tune' needs all rows at once: use fit, or set rate to a number")
        if options.passes > 1:
            raise OptionError(f"passes={options.passes} with partial_fit: every call is one pass; use fit")
        if options.shuffle:
            raise OptionError("shuffle=True with partial_fit: shuffle the rows before the call, or use fit")
        kinds = self._kinds(options, X.shape[1])
        if options.max_time is not None:
            raise OptionError("max_time with partial_fit: every call learns from all of its rows; use fit")
        if options.checkpoint is not None:
            raise OptionError("checkpoint with partial_fit: save the model between two calls, or use fit")
        if self._trainer is None:
            self._trainer = Trainer(options, kind, classes, None, X.shape[1])
        trainer = self._trainer
        if trainer.kind != kind:
            raise DataError(f"y has {kind} now, but had {trainer.kind} in the first call")
        trainer.start_call()
        trainer.go_on_with(options)
        lines = ProgressiveLines(options.verbose, len(trainer.learner.history))
        for block in array_blocks(X, y, weights, kinds):
            trainer.feed(block)
            lines.show(trainer.learner.history)
        trainer.check_finite()
        trainer.warn_of_cuts()
        trainer.warn_of_order(options, "Shuffle the rows before the calls")
        self._hold(trainer, trainer.learner.history, ONE_PASS, kinds)
        return self

    def _hold(self, trainer: Trainer, history: list[dict[str, float]], status: str, kinds: Any) -> None:
        self._trainer = trainer
        self.model_ = trainer.model(status, kinds=kinds, feature_names=column_names(self))
        self.history_, self.status_, self.certificate_ = history, status, self.model_.certificate
        self.rate_ = float(trainer.learner.options.rate)
        self.n_iter_ = max(1, trainer.learner.passes)


class OnlineClassifier(ModelClassifier, _Online):
    __doc__ = f"""Online classifier: every example is predicted, then learned from, in one pass over the rows.

    Updates are adaptive, normalised and importance-invariant; scales of features do not matter. Several classes and
    label sets are learned one-vs-rest, all in one pass. Rows are learned from in their order: set `shuffle` if they are
    sorted. `expansion` adds products of features; "adaptive" adds only those that help.
{_PARAMETERS}"""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineClassifier:
        """Learn from X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix; weights are importances.

        X can also be a path, a glob or a list of files, which have the labels: they are read as a stream, in constant
        memory. New classes may then appear at any time. Or X, y and the weights are Dask collections.
        """
        self._trainer = None
        if is_path(X):
            return self._learn_files(X, y, sample_weight, are_numbers=False)
        if is_lazy(X):
            return self._learn_partitions(X, y, sample_weight, are_numbers=False)
        X, y, sample_weight = self._validated(X, y, sample_weight)
        y, kind = self._target(y)
        classes = np.arange(y.shape[1]) if kind == SETS else find_classes(y)[0]
        return self._learn_all(X, y, sample_weight, kind, classes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> OnlineClassifier:
        """Continue to learn from more rows. Without `classes`, new classes may appear at any time."""
        trainer = self._trainer
        X, y, sample_weight = self._validated(X, y, sample_weight, reset=trainer is None)
        y, kind = self._target(y)
        if kind == SETS:
            return self._learn_more(X, y, sample_weight, kind, np.arange(y.shape[1]))
        if classes is None:
            return self._learn_more(X, y, sample_weight, kind, None)
        labels = find_classes(classes)[0]
        if trainer is not None and not np.array_equal(labels, trainer.classes):
            raise DataError("classes differ from those of the first call")
        return self._learn_more(X, y, sample_weight, kind, labels)

    def _target(self, y: Any) -> tuple[Any, str]:
        """Labels in the form of the learner, and their kind."""
        if np.ndim(y) == 2 or sparse.issparse(y):
            return label_sets(y), SETS
        check_present(y)
        return y, CLASSES

    def _why_no_probabilities(self) -> str | None:
        return (
            None
            if self.loss in (None, "logistic")
            else f"loss {self.loss!r} gives scores, not probabilities: use 'logistic'"
        )


class OnlineRegressor(ScoresChecked, RegressorMixin, _Online):
    __doc__ = f"""Online regression: every example is predicted, then learned from, in one pass over the rows.

    Like `OnlineClassifier`, for numbers: with squared or quantile loss.
{_PARAMETERS}"""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineRegressor:
        """Learn from X (n, d) and numbers y (n,).

        X can also be a path, a glob or a list of files, which have the numbers: they are read as a stream. Or X, y and
        the weights are Dask collections.
        """
        self._trainer = None
        if is_path(X):
            return self._learn_files(X, y, sample_weight, are_numbers=True)
        if is_lazy(X):
            return self._learn_partitions(X, y, sample_weight, are_numbers=True)
        X, y, sample_weight = self._validated(X, y, sample_weight)
        return self._learn_all(X, y, sample_weight, NUMBERS, None)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> OnlineRegressor:
        """Continue to learn from more rows."""
        X, y, sample_weight = self._validated(X, y, sample_weight, reset=self._trainer is None)
        return self._learn_more(X, y, sample_weight, NUMBERS, None)

    def predict(self, X: Any) -> np.ndarray:
        """Predicted numbers, (n,)."""
        check_is_fitted(self, "model_")
        if is_lazy(X):
            return lazily(self.model_, "predict", X)
        X = validated(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        return self.model_.predict(Checked(X))

    def save(self, path: Any) -> None:
        """Write the model to a file that `lineal.load` reads."""
        check_is_fitted(self, "model_")
        self.model_.save(path)

    def _validated(self, X: Any, y: Any, sample_weight: Any, reset: bool = True) -> tuple[Any, Any, Any]:
        X, y = validated(self, X, y, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32), y_numeric=True)
        check_present(y)
        return X, y, validated_weights(sample_weight, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
