"""`LinearClassifierCV`: `LinearClassifier` that finds the strength of its penalty by cross-validation."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from lineal.core.scikit import ConvergenceWarning
from lineal.errors import OptionError
from lineal.linear.estimator import LinearClassifier
from lineal.linear.options import TrainOptions
from lineal.linear.rows import rows_of
from lineal.linear.search.names import names as measure_names
from lineal.linear.search.options import PathOptions
from lineal.linear.search.run import search, search_rows
from lineal.linear.search.scorer import AFTER_SEARCH, Rows, SklearnScorer, takes_weights
from lineal.system.options import describe

#: Options of training that the search decides, or that are for one fit only.
_DECIDED = ("alpha", "checkpoint")


class LinearClassifierCV(LinearClassifier):
    __doc__ = f"""Linear classifier whose penalty strength α is chosen by cross-validation along a warm-started path.

    Fits a path of α from strong to weak, on every fold and on all rows; each fit starts from the one before and is
    certified. Folds share the rows of X without copies. Takes what `LinearClassifier` takes, with `alphas` for
    `alpha`; `max_time` holds for the whole search, and Ctrl-C ends it with the best model so far.

    Parameters
    ----------
{describe(PathOptions, leave_out=("folds", "scoring"))}
    cv : default 5
        Number of stratified folds (with `groups`: stratified folds of whole groups), a splitter of scikit-learn, or
        pairs (training rows, held-out rows).
    scoring : default None
        Measure of the rows held out, of {", ".join(measure_names())}; or one of scikit-learn's names, or a scorer
        (estimator, X, y). None means accuracy; with a threshold, ROC AUC, or precision at 1 for label sets.
    keep_path : default False
        Keep the weights at every α, in `coef_path_`.
{describe(TrainOptions, leave_out=_DECIDED)}
    callbacks : default ()
        Functions called with a `Snapshot` each iteration of each fit; returning True ends the search.

    Attributes
    ----------
    alpha_ : the α that was chosen.
    alphas_ : the path, from the largest to the smallest.
    cv_scores_ : (n_alphas, n_folds), NaN where the search ended early.
    cv_mean_, cv_se_ : mean scores and their standard errors.
    best_index_, chosen_index_ : positions of the best mean score and of α.
    n_nonzero_ : weights that are not zero, at every α, fitted to all rows; −1 where all rows were not fitted, as in a
        quick search at all α but the chosen one.
    n_nonzero_rows_ : features with a weight that is not zero, of the same fits.
    alpha_max_ : the smallest α at which all weights are zero; None if there is none, as for l2.
    certificates_ : certificates of those fits.
    coef_path_, intercept_path_ : (n_alphas, k, d) and (n_alphas, k), with `keep_path=True`.
    search_ : all of this as a `Search`.
    classes_, coef_, intercept_, certificate_, history_, n_iter_, status_, model_ : as of `LinearClassifier`, at α.
    """

    def __init__(
        self,
        loss: str = "squared_hinge",
        penalty: str = "l2",
        alphas: Any = None,
        n_alphas: int = 20,
        alpha_min_ratio: float | None = None,
        cv: Any = 5,
        scoring: Any = None,
        select: str = "best",
        within: float | None = None,
        search: str = "path",
        keep_path: bool = False,
        l1_ratio: float | None = None,
        feature_groups: Any = None,
        penalty_factors: Any = None,
        solver: str = "auto",
        solver_options: dict[str, Any] | None = None,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        class_weight: Any = None,
        probability: bool = False,
        threshold: Any = None,
        fbr: float | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        engine: str = "auto",
        memory_budget: str | int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
        callbacks: Iterable[Any] = (),
    ) -> None:
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.n_alphas = n_alphas
        self.alpha_min_ratio = alpha_min_ratio
        self.cv = cv
        self.scoring = scoring
        self.select = select
        self.within = within
        self.search = search
        self.keep_path = keep_path
        self.l1_ratio = l1_ratio
        self.feature_groups = feature_groups
        self.penalty_factors = penalty_factors
        self.solver = solver
        self.solver_options = solver_options
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.probability = probability
        self.threshold = threshold
        self.fbr = fbr
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.engine = engine
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offsets: Any = None, groups: Any = None
    ) -> LinearClassifierCV:
        """Choose α and train on X (n, d) and y (n,) or, for label sets, an (n, k) indicator matrix.

        X and y can also be Dask collections; or X is a path, a glob or a list of files, which have the labels, and y
        is left out. Weights count in the scores too. `offsets` are base scores, (n,) or (n, k). Rows of a group (n,)
        are held out together.
        """
        names = {entry.name for entry in dataclasses.fields(TrainOptions)} - set(_DECIDED)
        options = TrainOptions(**{name: getattr(self, name) for name in names})
        rows = rows_of(X, y, self.engine, self.memory_budget, sample_weight=sample_weight, offsets=offsets)
        if rows is not None:
            self._check_for_rows(groups)
            model, solution, found = search_rows(
                rows, options, self._path_options(None), keep_path=self.keep_path, callbacks=self.callbacks
            )
            self._keep_from(rows, model, solution)
            return self._searched_with(found, solution)
        X, y, sample_weight = self._validated(X, y, sample_weight)
        scorer = self._scorer(X, y, sample_weight, offsets, options.rule not in AFTER_SEARCH)
        model, solution, found = search(
            X, y, options, self._path_options(scorer), sample_weight=sample_weight, offsets=offsets,
            folds=self._folds(X, y, groups), scorer=scorer, keep_path=self.keep_path, callbacks=self.callbacks,
        )  # fmt: skip
        self._keep(model, solution)
        return self._searched_with(found, solution)

    def _check_for_rows(self, groups: Any) -> None:
        """Refuse what needs all rows or labels in this process."""
        if groups is not None or not isinstance(5 if self.cv is None else self.cv, int | np.integer):
            raise OptionError("rows in files or on a cluster are dealt to folds by cv=<number>, without groups")
        if self.scoring is not None and self.scoring not in measure_names():
            raise OptionError(
                f"scoring={self.scoring!r} needs all rows in this process: use one of {', '.join(measure_names())}"
            )

    def _searched_with(self, found: Any, solution: Any) -> LinearClassifierCV:
        """Keep the search, and warn of what it missed."""
        self.search_ = found
        if found.status != "complete":
            self.status_ = found.status
        for problem in self._problems(solution.message):
            warnings.warn(problem, ConvergenceWarning, stacklevel=3)
        self._warn_of_edge()
        return self

    def _problems(self, message: str) -> list[str]:
        found = self.search_
        if found.status != "complete":
            scored = int(np.isfinite(found.mean).sum())
            return [f"the search ended early ({found.status}) with {scored} alphas scored; the model: {message}"]
        if found.missed:
            fits = found.scores.size + len(found.alphas)
            return [f"{found.missed} of {fits} fits missed tol={self.tol:g}; the model: {message}"]
        return []

    def _warn_of_edge(self) -> None:
        if self.search_.warning is not None:
            warnings.warn(self.search_.warning, UserWarning, stacklevel=4)

    def _path_options(self, scorer: Any) -> PathOptions:
        own = {entry.name for entry in dataclasses.fields(PathOptions)} - {"folds", "scoring"}
        folds = self.cv if isinstance(self.cv, int | np.integer) else 5
        if isinstance(self.cv, bool) or folds < 2:
            raise OptionError(
                f"cv={self.cv!r} must be a number of folds from 2 on, a splitter of scikit-learn, or pairs (training "
                "rows, held-out rows)"
            )
        scoring = self.scoring if scorer is None else None
        return PathOptions(**{name: getattr(self, name) for name in own}, folds=int(folds), scoring=scoring)

    def _folds(self, X: Any, y: Any, groups: Any) -> Any:
        """Pairs of rows; None if the search makes its own."""
        cv = 5 if self.cv is None else self.cv
        if isinstance(cv, int | np.integer):
            if groups is None:
                return None
            from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

            seed = {"shuffle": True, "random_state": self.random_state or 0}
            cv = GroupKFold(cv, **seed) if np.ndim(y) == 2 else StratifiedGroupKFold(cv, **seed)
        from sklearn.model_selection import check_cv
        from sklearn.utils import indexable

        _, groups = indexable(X, groups)
        return list(check_cv(cv, y, classifier=True).split(X, y, groups))

    def _scorer(self, X: Any, y: Any, sample_weight: Any, offsets: Any, is_decided: bool) -> SklearnScorer | None:
        """Scorer of scikit-learn, if `scoring` names one; without predictions if those are decided after the search."""
        if self._is_own_measure:
            return None
        if offsets is not None:
            raise OptionError(f"scoring={self.scoring!r} does not see offsets: use one of {', '.join(measure_names())}")
        scorer = self._of_scikit_learn()
        weights = sample_weight if takes_weights(self, scorer, sample_weight) else None
        return SklearnScorer(scorer, self.scoring, is_decided, Rows(X, y, weights))

    def _of_scikit_learn(self) -> Any:
        """The scorer that `scoring` is or names, for one that is not a measure of lineal."""
        from sklearn.metrics import check_scoring

        if not (isinstance(self.scoring, str) or callable(self.scoring)):
            raise OptionError(
                f"scoring={self.scoring!r} is not one measure: α is chosen by one, so give one of "
                f"{', '.join(measure_names())}, a name of scikit-learn, or a scorer"
            )
        try:
            return check_scoring(self, scoring=self.scoring)
        except ValueError as error:
            raise OptionError(
                f"scoring={self.scoring!r} is neither one of {', '.join(measure_names())} nor known to scikit-learn: "
                f"{error}"
            ) from None

    @property
    def _is_own_measure(self) -> bool:
        return self.scoring is None or (isinstance(self.scoring, str) and self.scoring in measure_names())

    def get_metadata_routing(self) -> Any:
        """Which metadata `fit` and `score` take, and the scorer of the search, for scikit-learn's metadata routing."""
        if self._is_own_measure:
            return super().get_metadata_routing()
        from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping

        mapping = MethodMapping().add(caller="fit", callee="score")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(scorer=self._of_scikit_learn(), method_mapping=mapping)

    @property
    def alpha_(self) -> float:
        """The α that was chosen."""
        return self._searched().alpha

    @property
    def alphas_(self) -> np.ndarray:
        """The path."""
        return self._searched().alphas

    @property
    def cv_scores_(self) -> np.ndarray:
        """Scores of the rows held out, (n_alphas, n_folds)."""
        return self._searched().scores

    @property
    def cv_mean_(self) -> np.ndarray:
        """Mean score of each α."""
        return self._searched().mean

    @property
    def cv_se_(self) -> np.ndarray:
        """Standard errors of the mean scores."""
        return self._searched().se

    @property
    def best_index_(self) -> int:
        """Position of the best mean score."""
        return self._searched().best

    @property
    def chosen_index_(self) -> int:
        """Position of `alpha_`."""
        return self._searched().chosen

    @property
    def n_nonzero_(self) -> np.ndarray:
        """Weights that are not zero, at every α."""
        return self._searched().nonzero

    @property
    def n_nonzero_rows_(self) -> np.ndarray:
        """Features with a weight that is not zero, at every α."""
        return self._searched().nonzero_rows

    @property
    def alpha_max_(self) -> float | None:
        """The smallest α at which all weights are zero, or None."""
        return self._searched().alpha_max

    @property
    def certificates_(self) -> list[Any]:
        """Certificates of the fits to all rows, one per α."""
        return self._searched().certificates

    @property
    def coef_path_(self) -> np.ndarray:
        """Weights at every α, (n_alphas, k, d)."""
        return np.stack([weights.T for weights, _ in self._path()])

    @property
    def intercept_path_(self) -> np.ndarray:
        """Intercepts at every α, (n_alphas, k)."""
        return np.stack([intercept for _, intercept in self._path()])

    def _searched(self) -> Any:
        self._fitted()
        return self.search_

    def _path(self) -> list[Any]:
        path = self._searched().path
        if path is None:
            raise AttributeError("the path was not kept: fit with keep_path=True")
        return [entry for entry in path if entry is not None]
