"""Generators that are prepared with rows in blocks, elsewhere: by sums over all rows and a sample of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from served_rows import ServedRows

from lineal import features
from lineal.engine.local import LocalEngine
from lineal.features import components, elsewhere
from lineal.features.rows import design_of
from lineal.problem.targets import OneLabel

ROWS, COLUMNS = 90, 12

#: Rows in one, three and seven blocks, of which one is empty.
SIZES = ((90,), (40, 0, 50), (1, 19, 0, 31, 2, 17, 20))


def rows(layout="dense", dtype=np.float64):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, COLUMNS)) * np.geomspace(3.0, 0.3, COLUMNS) + rng.normal(size=COLUMNS)
    X[rng.random(X.shape) < np.linspace(0.1, 0.8, COLUMNS)] = 0.0
    X = X.astype(dtype)
    return sparse.csr_array(X) if layout == "csr" else X


def local(X):
    return LocalEngine(design_of(X), OneLabel(np.zeros(ROWS, np.int32)), np.full(ROWS, 1.0 / ROWS), 1)


def features_of(generator, X, size=8):
    """Features of a generator, which are compared instead of what it learned: a component can have either sign."""
    if getattr(generator, "needs_residual", False):
        R = np.random.default_rng(0).normal(size=(ROWS, 2))
        return generator.make(0, size, (X, R)).transform(X)
    return generator.make(0, size).transform(X)


#: Those that learn nothing but sums, and those that also need a sample.
FROM_SUMS = ("frequency", "greedy", "pca:n_components=4", "pca:n_components=4+greedy", "pca:n_components=4+frequency",
             "subset", "polynomial")  # fmt: skip
FROM_SAMPLES = ("fourier", "pca:n_components=4+fourier", "patches:patch=2,n_filters=4,image_shape=3x4")


@pytest.mark.parametrize("layout", ["dense", pytest.param("csr", marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", [*FROM_SUMS, *FROM_SAMPLES])
def test_rows_that_fit_into_the_sample_are_all_seen_in_order(text, layout):
    X = rows(layout)
    wanted = features_of(features.parse(text).prepare(X, 5), X)
    for sizes in SIZES:
        served = ServedRows(local(X), sizes, forgets=0.2)
        found = elsewhere.prepare(features.parse(text), served, 5, np.float64)
        np.testing.assert_array_equal(features_of(found, X), wanted)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("text", FROM_SUMS)
def test_sums_over_all_rows_are_exact_where_the_sample_is_small(text, layout, monkeypatch):
    X = rows(layout)
    wanted = features_of(features.parse(text).prepare(X, 5), X)
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 20 * COLUMNS if layout == "dense" else 100)
    for sizes in SIZES[1:]:
        served = ServedRows(local(X), sizes, forgets=0.2)
        assert elsewhere.sampled_rows(served) < ROWS
        found = elsewhere.prepare(features.parse(text), served, 5, np.float64)
        np.testing.assert_allclose(features_of(found, X), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("text", FROM_SAMPLES)
def test_what_is_learned_from_a_sample_does_not_depend_on_the_blocks(text, monkeypatch):
    X = rows()
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 20 * COLUMNS)
    found = [
        features_of(elsewhere.prepare(features.parse(text), ServedRows(local(X), sizes), 5, np.float64), X)
        for sizes in SIZES
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-9, atol=1e-9)
    other_seed = elsewhere.prepare(features.parse(text), ServedRows(local(X), SIZES[1]), 6, np.float64)
    assert np.abs(features_of(other_seed, X) - found[0]).max() > 1e-3


def test_a_sample_has_every_row_with_the_same_chance():
    X = np.arange(ROWS, dtype=np.float64)[:, None]
    served, counts = ServedRows(local(X), SIZES[2]), np.zeros(ROWS)
    for seed in range(300):
        chosen = elsewhere.chosen_rows(served, 30, seed, -1)
        (*parts,) = served.gather(elsewhere.ChosenRows(), chosen, np.float64)
        found = elsewhere.stacked(parts)[:, 0]
        np.testing.assert_array_equal(found, chosen)
        assert len(np.unique(found)) == 30
        counts[found.astype(int)] += 1
    assert np.abs(counts - 100.0).max() < 5.0 * np.sqrt(300 * (1 / 3) * (2 / 3))


def test_rows_are_converted_to_the_precision_of_the_features():
    X = rows()
    wanted = features.parse("pca:n_components=4").prepare(X.astype(np.float32), 5)
    for numbers in (1 << 26, 20 * COLUMNS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(elsewhere, "SAMPLED_NUMBERS", numbers)
            found = elsewhere.prepare(
                features.parse("pca:n_components=4"), ServedRows(local(X), SIZES[1]), 5, np.float32
            )
        assert found.components_.dtype == found.mean_.dtype == np.float32
        np.testing.assert_allclose(found.variances_, wanted.variances_, rtol=1e-5)


def test_components_of_very_many_columns_are_those_of_the_sample(monkeypatch):
    X = rows()
    monkeypatch.setattr(components, "COVARIANCE_COLUMNS", COLUMNS - 1)
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 50 * COLUMNS)
    served = ServedRows(local(X), SIZES[2])
    found = elsewhere.prepare(features.parse("pca:n_components=4"), served, 5, np.float64)
    chosen = elsewhere.chosen_rows(served, 50, 5, elsewhere._STREAM)
    wanted = features.parse("pca:n_components=4").prepare(X[chosen], 5)
    np.testing.assert_array_equal(found.components_, wanted.components_)


class Own:
    """A generator of a user's own, which sees the sample alone."""

    def prepare(self, X, seed):
        self.seen, self.seed = X, seed

    def make(self, number, size):
        raise NotImplementedError


def test_generators_of_ones_own_see_the_sample(monkeypatch):
    X = rows()
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 20 * COLUMNS)
    own = elsewhere.prepare(Own(), ServedRows(local(X), SIZES[1]), 7, np.float64)
    assert own.seed == 7
    assert own.seen.shape == (20, COLUMNS)
    assert all((row == X).all(axis=1).any() for row in own.seen)


def test_steps_of_scikit_learn_see_the_sample(monkeypatch):
    from sklearn.preprocessing import StandardScaler

    X = rows()
    monkeypatch.setattr(elsewhere, "SAMPLED_NUMBERS", 50 * COLUMNS)
    chain = features.Chain(StandardScaler(), features.FrequencyOrdered())
    found = elsewhere.prepare(chain, ServedRows(local(X), SIZES[1]), 5, np.float64)
    assert found.steps_[0].n_samples_seen_ == 50
    assert sorted(found.last.order_) == list(range(COLUMNS))
    with pytest.raises(ValueError, match="sparse"):
        elsewhere.prepare(chain, ServedRows(local(rows("csr")), SIZES[1]), 5, np.float64)


def test_the_room_of_an_engine_limits_the_sample():
    class Small:
        shape, stored, dtype = (10**6, 100), 10**8, np.dtype(np.float32)
        room = 64 << 20

    small = Small()
    assert elsewhere.sampled_rows(small) == (4 << 20) // 100
    small.room += 1000  # a little more or less makes no difference
    assert elsewhere.sampled_rows(small) == (4 << 20) // 100
    small.room = None
    assert elsewhere.sampled_rows(small) == elsewhere.SAMPLED_NUMBERS // 100
