"""Fits and predictions from many threads and in forked processes: the same answers as without them."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from child_processes import in_a_fork
from scipy import sparse

import lineal
from lineal.core.threads import _SERIAL

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are Unix's")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 6)), RNG.integers(0, 3, 300)
INPUTS = [X, X.astype(np.float32), sparse.csr_array(X), X[0], X[:1]]

#: Estimators of every kind, and options that have them use several threads.
MAKERS = {
    "softmax": lambda: lineal.LinearClassifier(loss="softmax", n_jobs=2),
    "hinge": lambda: lineal.LinearClassifier(loss="hinge", n_jobs=2, random_state=0),
    "least squares": lambda: lineal.LeastSquaresClassifier(n_jobs=2),
    "online": lambda: lineal.OnlineClassifier(),
}


@pytest.fixture(scope="module")
def fitted():
    """One estimator of every kind, fitted, and its scores: what every other fit must give."""
    estimators = {name: make().fit(X, Y) for name, make in MAKERS.items()}
    return {name: (estimator, estimator.decision_function(X)) for name, estimator in estimators.items()}


def different(found, expected):
    return None if np.array_equal(found, expected) else "another answer"


def test_predictions_with_one_model_from_many_threads(fitted, tally, factor):
    count, model = tally("threads"), fitted["softmax"][0].model_
    expected = [model.decision_function(one) for one in INPUTS]

    def work(number):
        which = number % len(INPUTS)
        return different(model.decision_function(INPUTS[which]), expected[which])

    with ThreadPoolExecutor(8) as pool:
        for problem in pool.map(work, range(200 * factor)):
            count.attempt("a prediction", problem)


def test_fits_of_many_estimators_at_once(fitted, tally, factor):
    count = tally("threads")

    def work(name):
        return different(MAKERS[name]().fit(X, Y).decision_function(X), fitted[name][1])

    names = list(MAKERS) * (3 * factor)
    with ThreadPoolExecutor(4) as pool:
        for name, problem in zip(names, pool.map(work, names)):
            count.attempt(f"a fit of {name}", problem)


@pytest.mark.parametrize("name", ["softmax", "least squares"])
def test_one_estimator_that_is_fitted_again_while_others_predict(fitted, tally, factor, name):
    """Every fit gives the same model, so that no prediction may see a mixture of two."""
    count = tally("threads")
    estimator, expected = MAKERS[name]().fit(X, Y), fitted[name][1]

    def work(number):
        if number % 4 == 0:
            estimator.fit(X, Y)
        return different(estimator.decision_function(X), expected)

    with ThreadPoolExecutor(4) as pool:
        for problem in pool.map(work, range(24 * factor)):
            count.attempt("a fit or prediction of one estimator", problem)


def limited(work):
    """The same work; a child that waits for ever is ended by a signal."""

    def run():
        signal.alarm(200)
        work()

    return run


@forks
@pytest.mark.parametrize("name", MAKERS)
def test_forks_predict_and_fit(fitted, tally, factor, name):
    """The parent has fitted and predicted with threads before."""
    count = tally("forks")
    estimator, expected = fitted[name]

    def predict():
        assert np.array_equal(estimator.decision_function(X), expected)

    def fit():
        assert np.array_equal(MAKERS[name]().fit(X, Y).decision_function(X), expected)

    def both():
        predict()
        fit()
        assert in_a_fork(limited(fit)) == 0  # a fork of a fork

    for work in [predict, fit, both] * factor:
        code = in_a_fork(limited(work))
        count.attempt(f"{name}, {work.__name__}", None if code == 0 else f"exit {code}")
    predict()


@forks
@pytest.mark.parametrize("others", ["predict", "fit"])
def test_forks_predict_while_other_threads_are_busy(fitted, tally, factor, others):
    count, is_over = tally("forks"), threading.Event()
    estimator, expected = fitted["softmax"]

    def predict():
        assert np.array_equal(estimator.decision_function(X), expected)

    def busy():
        while not is_over.is_set():
            if others == "fit":
                MAKERS["softmax"]().fit(X, Y)
            predict()

    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(busy) for _ in range(2)]
        try:
            for _ in range(5 * factor):
                code = in_a_fork(limited(predict))
                count.attempt(f"while others {others}", None if code == 0 else f"exit {code}")
        finally:
            is_over.set()
        for thread in threads:
            thread.result()


@forks
def test_a_fork_does_not_wait_for_threads_that_it_does_not_have(fitted):
    """Another thread of the parent is about to limit BLAS, which fits do."""
    expected = fitted["softmax"][1]

    def fit():
        assert np.array_equal(MAKERS["softmax"]().fit(X, Y).decision_function(X), expected)

    with _SERIAL.lock:
        assert in_a_fork(limited(fit)) == 0
