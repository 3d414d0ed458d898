"""What the linear family learns beyond weights, on rows in other processes: the same as on local rows.

Thresholds of label sets, calibrated probabilities and the path of a search, with rows in unequal blocks, one of them
empty, whose row state is forgotten at random.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from served_rows import ServedRows
from sklearn.datasets import make_multilabel_classification

from lineal.linear import held_out, thresholds
from lineal.linear.fit import fit_problem, prepare, problem_on
from lineal.linear.options import TrainOptions
from lineal.linear.search.measures import HeldOut
from lineal.linear.search.names import LABEL_SETS, ONE_LABEL
from lineal.linear.search.options import PathOptions
from lineal.linear.search.run import search_problem

N = 90
SIZES = {1: (N,), 3: (31, 0, 59), 7: (1, 20, 0, 9, 33, 25, 2)}
BLOCKS = [(1, 0), (3, 0), (7, 0), (7, 2)]


def label_sets(k=4):
    X, Y = make_multilabel_classification(n_samples=N, n_features=8, n_classes=k, n_labels=2, random_state=0)
    return X / X.std(0), Y


def classes(k=3):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 6))
    return X, (X @ rng.normal(size=(6, k)) + rng.gumbel(size=(N, k))).argmax(1)


def served(problem, blocks, processes):
    """The same problem, its rows held by others, who forget."""
    engine = ServedRows(problem.objective.engine, SIZES[blocks], processes, forgets=0.2, seed=blocks)
    return problem_on(engine, problem.encoded, problem.options)


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("blocks", "processes"), BLOCKS)
@pytest.mark.parametrize("threshold", ["zero", "global", "per_label", "learned"])
def test_thresholds(threshold, blocks, processes):
    X, Y = label_sets()
    loss = "label_ranking" if threshold == "learned" else "squared_hinge"
    options = TrainOptions(loss=loss, threshold=threshold, alpha=1e-2, tol=1e-11, solver="lbfgs", random_state=1)
    problem = prepare(X, Y, options, sample_weight=1.0 + np.arange(N) % 3)
    model, _ = fit_problem(problem)
    elsewhere, _ = fit_problem(served(problem, blocks, processes))
    assert_same(elsewhere.weights, model.weights)
    if threshold == "zero":
        assert elsewhere.thresholds is None
    else:
        assert_same(elsewhere.thresholds, model.thresholds)
    np.testing.assert_array_equal(elsewhere.predict(X), model.predict(X))


@pytest.mark.parametrize(("blocks", "processes"), BLOCKS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("rule", ["f1", "balanced", "costs"])
def test_decisions(rule, k, blocks, processes):
    X, y = classes(k)
    y[::2] = 0
    threshold = (7.0 * (1.0 - np.eye(k))).tolist() if rule == "costs" else rule
    if rule == "costs":
        threshold[1][0] = 30.0
    options = TrainOptions(threshold=threshold, alpha=1e-2, tol=1e-11, solver="newton", class_weight="balanced")
    problem = prepare(X, y, options, sample_weight=1.0 + np.arange(N) % 3)
    model, _ = fit_problem(problem)
    elsewhere, _ = fit_problem(replace(served(problem, blocks, processes), factors=problem.factors))
    assert_same(elsewhere.thresholds, model.thresholds)
    np.testing.assert_array_equal(elsewhere.predict(X), model.predict(X))


@pytest.mark.parametrize(("blocks", "processes"), BLOCKS)
@pytest.mark.parametrize("kind", ["two", "three", "sets"])
def test_probabilities(kind, blocks, processes):
    X, y = label_sets() if kind == "sets" else classes(2 if kind == "two" else 3)
    options = TrainOptions(probability=True, alpha=1e-2, tol=1e-11, solver="newton", class_weight=None)
    problem = prepare(sparse.csr_array(X), y, options)
    model, _ = fit_problem(problem)
    elsewhere, _ = fit_problem(served(problem, blocks, processes))
    assert_same(elsewhere.calibration, model.calibration)
    assert_same(elsewhere.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(("blocks", "processes"), BLOCKS)
@pytest.mark.parametrize(("penalty", "solver"), [("l2", "lbfgs"), ("l1/l2", "sparsa")])
def test_paths(penalty, solver, blocks, processes):
    X, y = classes()
    options = TrainOptions(loss="softmax", penalty=penalty, solver=solver, tol=1e-11)
    wanted = PathOptions(n_alphas=4, alpha_min_ratio=1e-2, folds=3, scoring="log_loss")
    weights, offsets = 1.0 + np.arange(N) % 2, 0.1 * np.random.default_rng(3).normal(size=(N, 3))
    problem = prepare(X, y, options, sample_weight=weights, offsets=offsets)
    model, _, found = search_problem(problem, wanted, sample_weight=weights, keep_path=True)
    other = served(problem, blocks, processes)
    elsewhere, _, there = search_problem(other, wanted, sample_weight=weights, keep_path=True)
    assert_same(there.alphas, found.alphas)
    assert_same(there.scores, found.scores)
    assert (there.chosen, there.best, there.status) == (found.chosen, found.best, "complete")
    for (W, b), (W_there, b_there) in zip(found.path, there.path):
        assert_same(W_there, W)
        assert_same(b_there - b_there.mean(), b - b.mean())  # a softmax does not see what all scores have in common
    assert_same(np.asarray(elsewhere.weights), np.asarray(model.weights))


@pytest.mark.parametrize(("measure", "kind"), [(name, "sets") for name in LABEL_SETS if name != "precision_at_5"]
                         + [(name, kind) for name in ONE_LABEL for kind in ("two", "three")])  # fmt: skip
def test_measures(measure, kind):
    """The same from any blocks as from scores of all rows at once, by scikit-learn where it has the measure."""
    X, y = label_sets() if kind == "sets" else classes(2 if kind == "two" else 3)
    problem = prepare(X, y, TrainOptions(loss="logistic", alpha=1e-2, solver="lbfgs"), sample_weight=np.ones(N))
    model, _ = fit_problem(problem)
    rows, weights = np.r_[np.arange(5, 50), 7, 7, 60], np.random.default_rng(0).random(N)
    other = served(problem, 7, 0).objective.engine
    values = [
        HeldOut(measure, engine, problem.encoded, "logistic", weights)(model, rows)
        for engine in (problem.objective.engine, replace(problem.objective.engine, block_rows=13), other)
    ]
    assert_same(values[1:], values[0])
    assert values[0] == pytest.approx(by_scikit_learn(measure, model, X[rows], y[rows], weights[rows]), rel=1e-12)


def by_scikit_learn(measure, model, X, y, weights):
    from sklearn import metrics

    if measure in ("brier", "hamming_loss", "precision_at_1", "precision_at_3"):
        return by_hand(measure, model, X, y, weights)
    scores, predicted = model.decision_function(X), model.predict(X)
    P = model.predict_proba(X)
    given = {"sample_weight": weights}
    if measure == "accuracy":
        return metrics.accuracy_score(y, predicted, **given)
    if measure.endswith("_f1"):
        return metrics.f1_score(y, predicted, average=measure[:5], zero_division=0.0, **given)
    if measure == "log_loss":
        if y.ndim == 1:
            return metrics.log_loss(y, P, **given)
        return np.mean([metrics.log_loss(y[:, r], P[:, r], **given) for r in range(y.shape[1])])
    if measure.startswith("label_ranking"):
        function = metrics.label_ranking_loss if measure.endswith("loss") else (
            metrics.label_ranking_average_precision_score)  # fmt: skip
        return function(y, scores, **given)
    area = metrics.roc_auc_score if measure == "roc_auc" else metrics.average_precision_score
    if scores.ndim == 1:
        return area(y, scores, **given)
    return np.mean([area(y == r, P[:, r], **given) for r in range(scores.shape[1])])


def by_hand(measure, model, X, y, weights):
    P, scores = model.predict_proba(X), model.decision_function(X)
    if measure == "brier" and y.ndim == 1:
        T = np.eye(P.shape[1])[y]
        values = ((P - T) ** 2).sum(1) / (2.0 if P.shape[1] == 2 else 1.0)
    elif measure == "brier":
        values = ((P - y) ** 2).mean(1)
    elif measure == "hamming_loss":
        values = (model.predict(X) != y).mean(1)
    else:
        top = int(measure[-1])
        values = [labels[np.argsort(-row)[:top]].mean() for labels, row in zip(y, scores)]
    return np.average(values, weights=weights)


def test_steps_are_small():
    """Steps are pickled without rows, labels or models."""
    for step in (held_out._score_chosen, thresholds._TrainingCuts(True)):
        assert len(pickle.dumps(step)) < 300
