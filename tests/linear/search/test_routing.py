"""`LinearClassifierCV` with scikit-learn's metadata routing, with groups and splits by time, and with its scorers."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lineal.errors import DataError, OptionError
from lineal.linear.search.estimator import LinearClassifierCV

pytestmark = pytest.mark.filterwarnings("ignore:the best .* is at the (smallest|largest) alpha of the path")

X, Y = make_classification(300, 6, class_sep=0.5, random_state=0)
GROUPS = np.random.default_rng(0).permutation(300) // 10
WEIGHTS = 1.0 + np.arange(300) % 3
SETTINGS = {"loss": "logistic", "alphas": [1e-1, 1e-3], "cv": 3}


def search(**options):
    return LinearClassifierCV(**{**SETTINGS, **options})


@pytest.fixture
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
def test_weights_and_groups_reach_a_search_in_a_pipeline():
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipe = make_pipeline(scaler, search().set_fit_request(sample_weight=True, groups=True))
    pipe.fit(X, Y, sample_weight=WEIGHTS, groups=GROUPS)
    alone = search().fit(StandardScaler().fit_transform(X), Y, sample_weight=WEIGHTS, groups=GROUPS)
    np.testing.assert_array_equal(pipe[-1].cv_scores_, alone.cv_scores_)
    without = search().fit(StandardScaler().fit_transform(X), Y)
    assert (pipe[-1].cv_scores_ != without.cv_scores_).any()
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        make_pipeline(search()).fit(X, Y, sample_weight=WEIGHTS)


@pytest.mark.usefixtures("_routing")
def test_weights_and_groups_reach_every_search_of_a_cross_validation():
    classifier = search(cv=StratifiedGroupKFold(3)).set_fit_request(sample_weight=True, groups=True)
    classifier.set_score_request(sample_weight=True)
    given = {"sample_weight": WEIGHTS, "groups": GROUPS}
    found = cross_validate(classifier, X, Y, params=given, cv=GroupKFold(3), return_estimator=True)
    for (train, test), one, score in zip(
        GroupKFold(3).split(X, Y, GROUPS), found["estimator"], found["test_score"], strict=True
    ):
        again = search(cv=StratifiedGroupKFold(3))
        again.fit(X[train], Y[train], sample_weight=WEIGHTS[train], groups=GROUPS[train])
        np.testing.assert_array_equal(one.cv_scores_, again.cv_scores_)
        assert score == again.score(X[test], Y[test], WEIGHTS[test])


@pytest.mark.usefixtures("_routing")
def test_scorers_get_the_weights_that_they_request():
    asks, declines = (get_scorer("neg_log_loss").set_score_request(sample_weight=wanted) for wanted in (True, False))
    weighted = search(scoring=asks).fit(X, Y, sample_weight=WEIGHTS).cv_scores_
    own = search(scoring="log_loss").fit(X, Y, sample_weight=WEIGHTS).cv_scores_
    np.testing.assert_allclose(weighted, -own, rtol=1e-6)
    assert not np.allclose(search(scoring=declines).fit(X, Y, sample_weight=WEIGHTS).cv_scores_, weighted)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        search(scoring="neg_log_loss").fit(X, Y, sample_weight=WEIGHTS)
    inside = make_pipeline(search(scoring=asks).set_fit_request(sample_weight=True))
    np.testing.assert_array_equal(inside.fit(X, Y, sample_weight=WEIGHTS)[-1].cv_scores_, weighted)


def test_functions_that_score():
    def share_right(estimator, X, y):
        return estimator.score(X, y)

    def weighted(estimator, X, y, sample_weight=None):
        return estimator.score(X, y, sample_weight)

    plain = search().fit(X, Y)
    np.testing.assert_allclose(search(scoring=share_right).fit(X, Y).cv_scores_, plain.cv_scores_)
    both = [search(scoring=one).fit(X, Y, sample_weight=WEIGHTS).cv_scores_ for one in (None, weighted)]
    np.testing.assert_allclose(*both)
    with pytest.raises(OptionError, match="scoring='share_right' is a function without the parameter sample_weight"):
        search(scoring=share_right).fit(X, Y, sample_weight=WEIGHTS)


@pytest.mark.parametrize("cv", [GroupKFold(3), StratifiedGroupKFold(3), LeaveOneGroupOut(), TimeSeriesSplit(3),
                                ShuffleSplit(3, random_state=0), RepeatedStratifiedKFold(n_splits=2, n_repeats=2)],
                         ids=lambda cv: type(cv).__name__)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
def test_splits_of_every_kind(cv):
    """Scores are those of fits to the training rows alone, also where these are not all the others."""
    groups = GROUPS // 6
    pairs = list(cv.split(X, Y, groups))
    found = search(cv=pairs, scoring="log_loss", tol=1e-8).fit(X, Y, groups=groups)
    from lineal import LinearClassifier

    for (train, test), scores in zip(pairs, found.cv_scores_.T, strict=True):
        for alpha, score in zip(found.alphas_, scores):
            alone = LinearClassifier("logistic", alpha=alpha, tol=1e-8).fit(X[train], Y[train])
            p = alone.predict_proba(X[test])[np.arange(len(test)), Y[test]]
            assert score == pytest.approx(-np.log(p).mean(), rel=1e-3)
    if not isinstance(cv, RepeatedStratifiedKFold):
        tuned = search(cv=cv, threshold="balanced", probability=True).fit(X, Y, groups=groups)
        assert tuned.cv_scores_.shape == (2, len(pairs))
        assert np.isfinite(tuned.model_.thresholds).all()


def test_a_class_that_comes_late_is_named():
    with pytest.raises(DataError, match=r"class 1 has no rows in the training part of fold 0: .* splits by time"):
        search(cv=TimeSeriesSplit(4)).fit(X, np.sort(Y))


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision", "neg_log_loss", "f1", "balanced_accuracy"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_scorers_see_what_a_search_has(scoring, loss):
    if scoring == "neg_log_loss" and loss == "squared_hinge":
        with pytest.raises(OptionError, match="scoring='neg_log_loss' needs what"):
            search(loss=loss, scoring=scoring).fit(X, Y)
        return
    plain = search(loss=loss, scoring=scoring).fit(X, Y)
    if scoring in ("f1", "balanced_accuracy"):
        with pytest.raises(OptionError, match="measures predictions, and the threshold is chosen after the search"):
            search(loss=loss, scoring=scoring, threshold="f1").fit(X, Y)
    else:
        tuned = search(loss=loss, scoring=scoring, threshold="f1").fit(X, Y)
        np.testing.assert_array_equal(tuned.cv_scores_, plain.cv_scores_)


def test_thresholds_come_after_the_search():
    tuned = search(threshold="f1").fit(X, Y)
    assert tuned.search_.measure == "roc_auc"
    np.testing.assert_array_equal(tuned.cv_scores_, search(scoring="roc_auc").fit(X, Y).cv_scores_)
    assert tuned.model_.thresholds.shape == (1,)
    for scoring in ("accuracy", "macro_f1", "micro_f1"):
        with pytest.raises(OptionError, match="measures predictions, and the threshold is chosen after the search"):
            search(threshold="f1", scoring=scoring).fit(X, Y)
