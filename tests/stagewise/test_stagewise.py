"""Stagewise regression: every update against a NumPy twin, continuation, chunks, generators, endings, model files."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import signal
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from edited_models import rewrite
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification
from sklearn.utils.estimator_checks import parametrize_with_checks

import lineal
from lineal import features
from lineal.errors import DataError, ModelFileError, OptionError
from lineal.features import Chain, PrincipalComponents, RandomFourier
from lineal.linear.fit import fit
from lineal.linear.options import TrainOptions
from lineal.problem import progress
from lineal.problem.drawn_rows import drawn
from lineal.problem.targets import encode
from lineal.solvers.stagewise import features as stage_features
from lineal.solvers.stagewise import residual_fit
from lineal.stagewise import search as stagewise_search
from lineal.stagewise.estimator import StagewiseClassifier
from lineal.stagewise.options import StagewiseOptions

IRIS, SPECIES = load_iris(return_X_y=True)
DIGITS, NUMBERS = load_digits(return_X_y=True)
DIGITS, NUMBERS = DIGITS[:500], NUMBERS[:500]
UPDATES = ("linear", "calibrated", "softmax")


class Waves:
    """A minimal generator of a user's own: cosines in random directions, by nothing but the number of a block."""

    def __init__(self, last=10**9):
        self.last, self.made, self.transformed = last, [], 0

    def prepare(self, X, seed):
        self.width, self.seed = X.shape[1], seed

    def make(self, number, size):
        return WavesBlock(self, number, size if number < self.last else 0)


class WavesBlock:
    def __init__(self, owner, number, width):
        rng = np.random.default_rng([owner.seed, number])
        self.owner, self.width = owner, width
        self.V, self.phases = rng.normal(size=(owner.width, width)), 6.0 * rng.random(width)

    def transform(self, X):
        self.owner.transformed += 1
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return np.cos(dense.astype(np.float64) @ self.V * 0.3 + self.phases)


def classifier(**options):
    given = {
        "generator": Waves(), "block_size": 12, "n_blocks": 3, "alpha": 1e-3, "precision": "float64",
        "validation_fraction": None,
    }  # fmt: skip
    return StagewiseClassifier(**{**given, **options})


def blocks_of(X, numbers, size=12, seed=0):
    generator = Waves()
    generator.prepare(X, seed)
    return [generator.make(number, size).transform(X) for number in numbers]


def targets(y):
    Y = (y[:, None] == np.unique(y)).astype(float) if y.ndim == 1 else y.astype(float)
    return Y[:, 1:] if y.ndim == 1 and Y.shape[1] == 2 else Y


# --- the updates


def twin(X, y, s, alpha, numbers, powers=False, running=None):
    """Linear and calibrated stages with whole matrices: the running predictions after all of them."""
    s, Y = s / s.sum(), targets(y)
    running = np.tile(s @ Y, (len(X), 1)) if running is None else running
    for number, F in zip(numbers, blocks_of(X, numbers)):
        F = np.hstack([F, running, running**2, running**3]) if powers else F
        mean, R = s @ F, Y - running
        level = s @ R
        ridges = np.full(F.shape[1], alpha)
        ridges[F.shape[1] - 3 * Y.shape[1] if powers else F.shape[1] :] += residual_fit.POWERS_RIDGE * (number + 1)
        A = np.vstack([np.sqrt(s)[:, None] * (F - mean), np.diag(np.sqrt(ridges))])
        B = np.vstack([np.sqrt(s)[:, None] * (R - level), np.zeros((F.shape[1], R.shape[1]))])
        running = running + (F - mean) @ np.linalg.lstsq(A, B, rcond=None)[0] + level
    return running


def scores_of(model, X):
    """Running predictions, of two classes as one column."""
    scores = model.decision_function(X)
    border = 0.5 if model.model_.is_multilabel or scores.ndim == 1 else 0.0
    return scores.reshape(len(X), -1) + border


@pytest.mark.parametrize("kind", ["classes", "two classes", "label sets"])
@pytest.mark.parametrize("update", ["linear", "calibrated"])
def test_least_squares_updates_against_a_twin(update, kind):
    X, Y = make_multilabel_classification(n_samples=150, n_features=4, n_classes=3, random_state=0)
    X = X if kind == "label sets" else IRIS
    y = {"classes": SPECIES, "two classes": SPECIES == 1, "label sets": Y}[kind]
    s = np.random.default_rng(0).random(150) + 0.2
    model = classifier(update=update).fit(X, y, s)
    expected = twin(X, y, s, 1e-3, range(3), update == "calibrated")
    np.testing.assert_allclose(scores_of(model, X), expected, atol=1e-7)
    assert model.history_[-1]["objective"] == pytest.approx(
        s @ ((expected - targets(y)) ** 2).sum(axis=1) / s.sum(), rel=1e-8
    )
    objectives = [row["objective"] for row in model.history_]
    assert objectives == sorted(objectives, reverse=True)
    assert [row["iteration"] for row in model.history_] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["classes", "two classes", "label sets"])
def test_softmax_stages_are_optima_given_the_scores_before(kind):
    X, Y = make_multilabel_classification(n_samples=150, n_features=4, n_classes=3, random_state=0)
    X = X if kind == "label sets" else IRIS
    y = {"classes": SPECIES, "two classes": SPECIES == 1, "label sets": Y}[kind]
    s = np.random.default_rng(0).random(150) + 0.2
    model = classifier(update="softmax", inner_iter=3000, n_blocks=2, alpha=1e-2).fit(X, y, s)
    Z = np.tile(model.model_.start, (150, 1))
    options = TrainOptions(
        loss="softmax" if kind == "classes" else "logistic", alpha=1e-2, solver="lbfgs", tol=1e-11, max_iter=5000
    )
    for F in blocks_of(X, range(2)):
        stage, _ = fit(F, y, options, sample_weight=s, offsets=Z)
        Z = Z + F @ stage.weights + stage.intercept
    found = scores_of(model, X) - (0.0 if kind == "classes" else 0.5)
    if kind == "classes":
        Z, found = Z - Z.mean(axis=1, keepdims=True), found - found.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found, Z, atol=1e-3)
    P = model.predict_proba(X)
    assert (P > 0.0).all()
    if kind != "label sets":
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))


def test_the_start_of_softmax_is_best_without_features():
    model = classifier(update="softmax", n_blocks=0).fit(IRIS[:120], SPECIES[:120])
    np.testing.assert_allclose(model.predict_proba(IRIS)[0], np.bincount(SPECIES[:120]) / 120, atol=1e-8)
    two = classifier(update="softmax", n_blocks=0).fit(IRIS, SPECIES == 1)
    np.testing.assert_allclose(two.predict_proba(IRIS)[0], [2 / 3, 1 / 3], atol=1e-8)


@pytest.mark.parametrize("update", UPDATES)
def test_features_are_kept_or_made_again_with_the_same_result(update):
    inner = {"inner_iter": 4} if update == "softmax" else {}
    kept, made = (classifier(update=update, block_memory=room, **inner).fit(IRIS, SPECIES) for room in (1 << 30, 0))
    np.testing.assert_array_equal(kept.decision_function(IRIS), made.decision_function(IRIS))
    assert kept.generator_.transformed < made.generator_.transformed


def test_block_memory_counts_the_bytes_of_the_features():
    """Float64 features take eight bytes each."""
    size = 150 * 12 * 8
    enough, short = (classifier(n_blocks=1, block_memory=room).fit(IRIS, SPECIES) for room in (size, size - 1))
    assert enough.generator_.transformed == 1
    assert short.generator_.transformed > 1


@pytest.mark.parametrize("update", UPDATES)
def test_chunks_do_not_matter(update, monkeypatch):
    inner = {"inner_iter": 6} if update == "softmax" else {}
    whole = classifier(update=update, **inner).fit(IRIS, SPECIES).decision_function(IRIS)
    monkeypatch.setattr(stage_features, "CHUNK_BYTES", 4 * 12 * 7)
    for room in (0, 1 << 30):
        parts = classifier(update=update, block_memory=room, **inner).fit(IRIS, SPECIES)
        np.testing.assert_allclose(parts.decision_function(IRIS), whole, atol=1e-8)


@pytest.mark.parametrize("update", UPDATES)
def test_doubled_rows_are_doubled_weights(update):
    inner = {"inner_iter": 20} if update == "softmax" else {}
    rows = np.concatenate([np.arange(150), np.arange(30, 70)])
    weights = np.ones(150)
    weights[30:70] = 2.0
    doubled = classifier(update=update, **inner).fit(IRIS[rows], SPECIES[rows])
    weighted = classifier(update=update, **inner).fit(IRIS, SPECIES, weights)
    np.testing.assert_allclose(doubled.decision_function(IRIS), weighted.decision_function(IRIS), atol=1e-7)


@pytest.mark.parametrize("update", UPDATES)
def test_names_of_classes_do_not_matter(update):
    order = np.array([2, 0, 1])
    first = classifier(update=update).fit(IRIS, SPECIES).decision_function(IRIS)
    turned = classifier(update=update).fit(IRIS, order[SPECIES]).decision_function(IRIS)
    np.testing.assert_allclose(turned[:, order], first, atol=1e-7)


def test_class_weights_are_row_weights():
    by_class = classifier(class_weight={0: 3.0, 1: 1.0, 2: 0.5}).fit(IRIS, SPECIES)
    by_row = classifier().fit(IRIS, SPECIES, np.array([3.0, 1.0, 0.5])[SPECIES])
    np.testing.assert_allclose(by_class.decision_function(IRIS), by_row.decision_function(IRIS), atol=1e-10)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("alpha", [0.0, 1e-6])
def test_more_features_than_rows_and_columns_that_are_alike(update, alpha):
    X = np.hstack([IRIS[::5], IRIS[::5], np.ones((30, 1)), np.zeros((30, 1))])
    model = classifier(update=update, block_size=80, alpha=alpha).fit(X, SPECIES[::5])
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, SPECIES[::5]) == 1.0


@pytest.mark.parametrize("update", UPDATES)
def test_constant_features_have_no_say(update):
    """Of columns as features, without a ridge: one that is constant, but for rounding, must not get a huge weight."""
    X = np.hstack([IRIS, np.full((150, 1), 0.1), np.full((150, 1), 1e3)])
    options = {"generator": features.FrequencyOrdered(), "update": update, "alpha": 0.0, "n_blocks": 1}
    with_constants, without = (classifier(**options).fit(rows, SPECIES) for rows in (X, IRIS))
    np.testing.assert_allclose(with_constants.decision_function(X), without.decision_function(IRIS), atol=1e-6)
    assert np.abs(with_constants.model_.members[0][0].weights).max() < 1e3


@pytest.mark.parametrize("update", UPDATES)
def test_features_far_from_zero_count(update):
    options = {"generator": features.FrequencyOrdered(), "update": update, "n_blocks": 1}
    far, near = (classifier(**options).fit(rows, SPECIES).decision_function(rows) for rows in (IRIS + 1e7, IRIS))
    np.testing.assert_allclose(far, near, atol=1e-4)


@pytest.mark.parametrize("update", UPDATES)
def test_a_ridge_makes_no_weights_of_constant_features(update):
    X = np.hstack([IRIS, np.full((150, 1), 1e5)]).astype(np.float32)
    options = {"generator": features.FrequencyOrdered(), "update": update, "n_blocks": 1, "alpha": 1e-7}
    model = StagewiseClassifier(**options).fit(X, SPECIES)
    column = model.generator_.order_.tolist().index(4)
    assert not model.model_.members[0][0].weights[column].any()


# --- continuation, early ends, several models


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("n_models", [1, 2])
def test_blocks_can_be_added(update, n_models):
    inner = {"inner_iter": 5} if update == "softmax" else {}
    model = classifier(update=update, warm_start=True, n_models=n_models, **inner).fit(IRIS, SPECIES)
    before = model.decision_function(IRIS)
    np.testing.assert_array_equal(model.fit(IRIS, SPECIES).decision_function(IRIS), before)  # nothing to add
    model.set_params(n_blocks=6).fit(IRIS, SPECIES)
    assert model.model_.n_blocks == 6 * n_models
    numbers = [stage.number for member in model.model_.members for stage in member]
    assert len(set(numbers)) == len(numbers)
    if n_models == 1:
        whole = classifier(update=update, n_blocks=6, **inner).fit(IRIS, SPECIES)
        np.testing.assert_allclose(model.decision_function(IRIS), whole.decision_function(IRIS), atol=1e-9)
        np.testing.assert_array_equal(numbers, range(6))
    other = model.set_params(n_blocks=3).fit(IRIS, SPECIES > 0)  # other labels: anew
    assert other.model_.n_blocks == 3 * n_models


@pytest.mark.parametrize(
    ("first", "changes"),
    [
        (RandomFourier(), {"generator": RandomFourier(scale=0.5)}),
        ("fourier", {"generator": "subset"}),
        (Chain(PrincipalComponents(3), RandomFourier()), {"generator": "pca:n_components=2+fourier"}),
        (Waves(), {"generator": RandomFourier()}),
        (RandomFourier(), {"random_state": 1}),
    ],
)
def test_blocks_of_other_features_are_not_added(first, changes):
    """What is given for features holds: the fit begins anew, as for other labels."""
    model = classifier(generator=first, warm_start=True).fit(IRIS, SPECIES)
    model.set_params(n_blocks=2, **changes).fit(IRIS, SPECIES)
    expected = classifier(**{"generator": first, "n_blocks": 2, **changes}).fit(IRIS, SPECIES)
    np.testing.assert_array_equal(model.decision_function(IRIS), expected.decision_function(IRIS))


def test_blocks_of_the_same_features_are_added_however_they_are_said(tmp_path):
    from lineal.stagewise.fit import fit_stagewise

    patches = features.PatchConvolution((8, 8), patch=3, n_filters=12)
    for given, again in (("pca:n_components=10+fourier", Chain(PrincipalComponents(10), RandomFourier(n_jobs=1))),
                         (patches, clone(patches))):  # fmt: skip
        options = StagewiseOptions(generator=given, block_size=48, n_blocks=1)
        model, _ = fit_stagewise(DIGITS, NUMBERS, options)
        model.save(tmp_path / "model")
        more = dataclasses.replace(options, generator=again, n_blocks=2)
        longer, _ = fit_stagewise(DIGITS, NUMBERS, more, start=lineal.load(tmp_path / "model"))
        np.testing.assert_array_equal(longer.members[0][0].weights, model.members[0][0].weights)
        assert longer.n_blocks == 2


def test_an_interrupted_fit_of_several_models_goes_on():
    model = classifier(n_models=3, warm_start=True, callbacks=[lambda s: s.iteration == 2])
    with pytest.warns(Warning, match="stopped"):
        model.fit(IRIS, SPECIES)
    first = model.model_.members[0]
    assert [len(member) for member in model.model_.members] == [2]
    members = model.set_params(callbacks=()).fit(IRIS, SPECIES).model_.members
    assert [len(member) for member in members] == [3, 3, 3]
    assert members[0][:2] == first
    assert len({stage.number for member in members for stage in member}) == 9


def test_blocks_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(DataError, match=r"stages of 10000000 features need .* lower block_size"):
        classifier(generator=RandomFourier(), block_size=10**7).fit(IRIS, SPECIES)
    classifier(generator=features.FrequencyOrdered(), block_size=10**7).fit(IRIS, SPECIES)  # which has four


@pytest.mark.parametrize("update", ["linear", "calibrated"])
def test_blocks_can_be_added_with_other_weights(update):
    """Then what is left does not have a mean of zero."""
    first, second = np.ones(150), np.where(SPECIES == 0, 5.0, 1.0)
    model = classifier(update=update, warm_start=True, n_blocks=1).fit(IRIS, SPECIES, first)
    model.set_params(n_blocks=2).fit(IRIS, SPECIES, second)
    before = twin(IRIS, SPECIES, first, 1e-3, [0], update == "calibrated")
    expected = twin(IRIS, SPECIES, second, 1e-3, [1], update == "calibrated", before)
    np.testing.assert_allclose(model.decision_function(IRIS), expected, atol=1e-7)


def test_blocks_of_another_size_go_on_where_the_columns_ended(tmp_path):
    X = DIGITS[:, DIGITS.any(axis=0)]
    options = {"warm_start": True, "precision": "float64", "validation_fraction": None}
    model = StagewiseClassifier("frequency", block_size=10, n_blocks=3, **options)
    model.fit(X, NUMBERS).set_params(block_size=15, n_blocks=100).fit(X, NUMBERS)
    assert [(stage.number, stage.size) for stage in model.model_.members[0][3:5]] == [(2, 15), (3, 15)]
    seen = [model.generator_.make(stage.number, stage.size).columns for stage in model.model_.members[0]]
    assert sorted(np.concatenate(seen)) == list(range(X.shape[1]))
    larger = StagewiseClassifier("frequency", block_size=10, n_blocks=2, **options)
    larger.fit(X, NUMBERS).set_params(block_size=20, n_blocks=4).fit(X, NUMBERS)
    assert [(stage.number, stage.size) for stage in larger.model_.members[0]] == [(0, 10), (1, 10), (1, 20), (2, 20)]
    left = np.square(np.eye(10)[NUMBERS] - larger.decision_function(X)).sum(axis=1).mean()
    assert left == pytest.approx(larger.history_[-1]["objective"], rel=1e-9)
    larger.save(tmp_path / "larger.lineal")
    np.testing.assert_array_equal(lineal.load(tmp_path / "larger.lineal").predict(X), larger.predict(X))
    fourier = StagewiseClassifier("fourier", block_size=10, n_blocks=3, warm_start=True).fit(X, NUMBERS)
    fourier.set_params(block_size=40, n_blocks=5).fit(X, NUMBERS)
    assert [stage.number for stage in fourier.model_.members[0]] == [0, 1, 2, 3, 4]


def test_several_models_are_averaged_over_disjoint_blocks():
    model = classifier(n_models=2).fit(IRIS, SPECIES)
    assert [[stage.number for stage in member] for member in model.model_.members] == [[0, 1, 2], [3, 4, 5]]
    even = np.ones(150)
    expected = sum(twin(IRIS, SPECIES, even, 1e-3, numbers) for numbers in (range(3), range(3, 6))) / 2
    np.testing.assert_allclose(model.decision_function(IRIS), expected, atol=1e-7)
    assert [row["member"] for row in model.history_] == [0, 0, 0, 0, 1, 1, 1, 1]
    seconds = [row["seconds"] for row in model.history_]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("update", ["linear", "softmax"])
def test_an_early_end_keeps_the_best_blocks(update):
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(150) < 0.3, rng.integers(0, 3, 150), SPECIES)
    options = {"update": update, "alpha": 0.0, "block_size": 20, "validation_fraction": 0.3, "random_state": 4}
    model = classifier(n_blocks=15, patience=3, **options).fit(IRIS, noisy)
    errors = [row["validation"] for row in model.history_]
    best = int(np.argmin(errors))
    assert 0 < best == model.model_.n_blocks
    assert len(errors) == min(15, best + 3) + 1
    assert model.status_ == "converged"
    shorter = classifier(n_blocks=best, patience=100, **options).fit(IRIS, noisy)
    np.testing.assert_allclose(model.decision_function(IRIS), shorter.decision_function(IRIS), atol=1e-10)
    # More blocks are added only if the held-out rows gain.
    model.set_params(warm_start=True, n_blocks=15).fit(IRIS, noisy)
    assert model.history_[0]["validation"] == pytest.approx(min(errors))
    assert model.model_.n_blocks == best or min(row["validation"] for row in model.history_) < min(errors)


def test_held_out_rows_teach_nothing():
    model = classifier(validation_fraction=0.4, random_state=1).fit(IRIS, SPECIES)
    held = drawn(0.4, np.ones(150), encode(SPECIES, direct=False), 1)
    assert len(held) == 60
    others = np.delete(np.arange(150), held)
    other = classifier(random_state=1).fit(IRIS[others], SPECIES[others])
    blocks = min(model.model_.n_blocks, other.model_.n_blocks)
    for mine, theirs in zip(model.model_.members[0][:blocks], other.model_.members[0][:blocks]):
        np.testing.assert_allclose(mine.weights, theirs.weights, atol=1e-9)


# --- rows and generators


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float64])
def test_rows_of_any_type(dtype):
    options = {"generator": RandomFourier(), "block_size": 64, "n_blocks": 2, "alpha": 1e-3}
    model = StagewiseClassifier(**options).fit(DIGITS.astype(dtype), NUMBERS)
    expected = StagewiseClassifier(**options).fit(DIGITS.astype(np.float32), NUMBERS)
    assert model.model_.dtype == np.float32
    np.testing.assert_allclose(
        model.decision_function(DIGITS.astype(dtype)), expected.decision_function(DIGITS.astype(np.float32)), atol=1e-3
    )
    np.testing.assert_allclose(
        model.decision_function(DIGITS), model.decision_function(DIGITS.astype(dtype)), atol=1e-4
    )


@pytest.mark.parametrize("whiten", [True, False])
def test_bytes_are_the_same_images_for_training_and_for_predictions(whiten):
    generator = features.PatchConvolution(patch=3, n_filters=12, whiten=whiten)
    model = StagewiseClassifier(generator, block_size=96, n_blocks=1, alpha=1e-5).fit(DIGITS.astype(np.uint8), NUMBERS)
    assert model.score(DIGITS.astype(np.uint8), NUMBERS) > 0.95
    np.testing.assert_array_equal(model.predict(DIGITS.astype(np.uint8)), model.predict(DIGITS))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
def test_features_have_the_precision_of_the_model(dtype):
    options = {"generator": RandomFourier(), "block_size": 64, "n_blocks": 2, "precision": "float64"}
    model = StagewiseClassifier(**options).fit(DIGITS.astype(dtype), NUMBERS)
    np.testing.assert_array_equal(model.decision_function(DIGITS.astype(dtype)), model.decision_function(DIGITS))


def test_sparse_rows():
    X = sparse.csr_array(DIGITS)
    options = {"block_size": 64, "n_blocks": 2, "alpha": 1e-3, "precision": "float64"}
    for generator in (RandomFourier(bandwidth=800.0), features.FrequencyOrdered(), features.RandomSubset()):
        from_sparse = StagewiseClassifier(generator, **options).fit(X, NUMBERS)
        from_dense = StagewiseClassifier(generator, **options).fit(DIGITS, NUMBERS)
        np.testing.assert_allclose(from_sparse.decision_function(X), from_dense.decision_function(DIGITS), atol=1e-7)
    automatic = StagewiseClassifier(block_size=16, validation_fraction=None).fit(X.tocsc(), NUMBERS)
    assert isinstance(automatic.generator_, features.FrequencyOrdered)
    assert automatic.n_iter_ == 4  # 64 columns
    assert automatic.status_ == "converged"


def test_automatic_generators():
    assert isinstance(StagewiseClassifier(block_size=16, n_blocks=1).fit(IRIS, SPECIES).generator_, RandomFourier)
    wide = StagewiseClassifier(block_size=16, n_blocks=1).fit(np.hstack([DIGITS, DIGITS]), NUMBERS)
    assert isinstance(wide.generator_, Chain)
    named = StagewiseClassifier("pca:n_components=5+fourier", block_size=16, n_blocks=1).fit(DIGITS, NUMBERS)
    assert len(named.generator_.steps_[0].variances_) == 5


def test_a_generator_stays_as_it_was():
    generator, ours = Waves(), RandomFourier()
    model = classifier(generator=generator).fit(IRIS, SPECIES)
    assert not hasattr(generator, "seed")
    assert model.generator_ is not generator
    classifier(generator=ours).fit(IRIS, SPECIES)
    assert not hasattr(ours, "seed_")


def test_a_generator_that_has_no_more():
    model = classifier(generator=Waves(last=2), n_blocks=9).fit(IRIS, SPECIES)
    assert model.n_iter_ == 2
    assert model.status_ == "converged"
    nothing = classifier(generator=Waves(last=0)).fit(IRIS, SPECIES)
    np.testing.assert_allclose(nothing.decision_function(IRIS), 1 / 3)


def _bad(transform):
    class Bad(Waves):
        def make(self, number, size):
            block = super().make(number, size)
            if number == 1:
                block.transform = lambda X, good=block.transform: transform(good(X))
            return block

    return Bad()


def _with_nan(F):
    F[3, 5] = np.nan
    return F


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (_with_nan, "row 3 of a chunk, feature 5 is nan"),
        (lambda F: F[:, 1:], r"gave shape \(150, 11\) for 150 rows and width 12"),
        (lambda F: F[1:], r"gave shape \(149, 12\)"),
        (lambda F: F.astype(int), "gave int64, not float32 or float64"),
        (sparse.csr_array, "gave csr_array, not a NumPy array"),
        (lambda F: F.tolist(), "gave list"),
    ],
)
def test_what_a_generator_may_not_give(transform, message, update):
    with pytest.raises(DataError, match=f"block 1 of Bad.*{message}"):
        classifier(generator=_bad(transform), update=update).fit(IRIS, SPECIES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda block: None, "make gave None"),
        (lambda block: vars(block).update(width="12") or block, "no integer `width`"),
        (lambda block: vars(block).update(width=-1) or block, "make gave a width of -1"),
    ],
)
def test_what_is_no_block(given, message):
    class Bad(Waves):
        def make(self, number, size):
            block = super().make(number, size)
            return given(block) if number == 1 else block

    with pytest.raises(DataError, match=f"block 1 of Bad.*{message}"):
        classifier(generator=Bad()).fit(IRIS, SPECIES)


def test_what_is_no_generator():
    for given, message in (
        ("forrier", "did you mean 'fourier'"),
        (3, "needs `prepare` and `make`"),
        (RandomFourier, "needs `prepare` and `make`"),
    ):
        with pytest.raises(OptionError, match=message):
            classifier(generator=given).fit(IRIS, SPECIES)


# --- determinism


def test_seeds_and_threads():
    options = {"generator": RandomFourier(), "precision": "float32", "block_size": 64}

    def scores(**more):
        return classifier(**{**options, **more}).fit(DIGITS, NUMBERS).decision_function(DIGITS)

    first = scores(random_state=3, n_jobs=1)
    np.testing.assert_array_equal(scores(random_state=3, n_jobs=1), first)
    np.testing.assert_allclose(scores(random_state=3, n_jobs=2), first, atol=1e-3)
    assert np.abs(scores(random_state=4) - first).max() > 1e-3


# --- endings


@pytest.mark.parametrize("update", UPDATES)
def test_callbacks_limits_and_interrupts_between_blocks(update):
    inner = {"inner_iter": 3} if update == "softmax" else {}
    full = classifier(update=update, **inner).fit(IRIS, SPECIES)

    def run(**options):
        with pytest.warns(Warning, match="stopped|interrupted"):
            return classifier(update=update, **inner, **options).fit(IRIS, SPECIES)

    for ended, status in (
        (run(callbacks=[lambda s: s.iteration == 2]), "stopped"),
        (run(callbacks=[lambda s: s.iteration == 2 and signal.raise_signal(signal.SIGINT)]), "interrupted"),
    ):
        assert (ended.status_, ended.n_iter_, len(ended.history_)) == (status, 2, 3)
        for mine, theirs in zip(ended.model_.members[0], full.model_.members[0]):
            np.testing.assert_array_equal(mine.weights, theirs.weights)
    late = run(max_time=1e-9)
    assert late.status_ == "max_time"
    assert late.model_.n_blocks == 0
    assert late.predict(IRIS).shape == (150,)


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("n_models", [1, 2])
def test_an_interrupt_within_a_block_keeps_those_before(update, n_models):
    class Slow(Waves):
        def make(self, number, size):
            if number == 2:
                signal.raise_signal(signal.SIGINT)
            return super().make(number, size)

    full = classifier(update=update, n_blocks=2).fit(IRIS, SPECIES)
    with pytest.warns(Warning, match="interrupted"):
        model = classifier(update=update, generator=Slow(), n_models=n_models).fit(IRIS, SPECIES)
    assert (model.status_, model.n_iter_) == ("interrupted", 2)
    np.testing.assert_allclose(model.decision_function(IRIS), full.decision_function(IRIS), atol=1e-9)


def test_a_time_limit_is_shared_by_the_models():
    with pytest.warns(Warning, match="max_time"):
        model = classifier(n_models=3, n_blocks=10**6, max_time=0.2).fit(IRIS, SPECIES)
    assert model.status_ == "max_time"
    assert len(model.model_.members) == 1  # of those that have not begun nothing is kept


def test_progress_counts_blocks(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", 0.0)
    classifier(verbose=1, n_models=2, n_blocks=2).fit(IRIS, SPECIES)
    lines = [line for line in capsys.readouterr().err.splitlines() if " of 4" in line]
    assert [line.split(" s  ")[1].split(",")[0] for line in lines] == [
        f"{done} of 4" for done in (0, 1, 2, 2, 3, 4)
    ]  # fmt: skip


# --- options


def test_parameters_are_the_options():
    parameters = inspect.signature(StagewiseClassifier.__init__).parameters
    for entry in dataclasses.fields(StagewiseOptions):
        assert parameters[entry.name].default == entry.default, entry.name
        assert entry.metadata["help"] in StagewiseClassifier.__doc__
    assert set(parameters) - {entry.name for entry in dataclasses.fields(StagewiseOptions)} == {
        "self", "warm_start", "callbacks"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": "lineer"}, "did you mean 'linear'"),
        ({"block_size": 0}, "block_size=0"),
        ({"n_blocks": -1}, "n_blocks=-1"),
        ({"n_models": 0}, "n_models=0"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"inner_iter": 5}, "inner_iter=5 is for update 'softmax'"),
        ({"update": "softmax", "inner_iter": 0}, "inner_iter=0"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0"),
        ({"validation_fraction": 1e-6}, "leaves none"),
        ({"patience": 3}, "give validation_fraction"),
        ({"precision": "float16"}, "precision='float16'"),
        ({"block_memory": -1}, "block_memory=-1"),
        ({"max_time": 0.0}, "max_time=0.0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"callbacks": print}, "callbacks"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        classifier(**options).fit(IRIS, SPECIES)


def test_only_softmax_has_probabilities():
    model = classifier().fit(IRIS, SPECIES)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(OptionError, match="update='softmax'"):
        model.model_.predict_proba(IRIS)


# --- search


def search(X=IRIS, y=SPECIES, **options):
    return StagewiseClassifier.search(X, y, sample_rows=80, **options)


def test_a_search_chooses_what_is_not_given(monkeypatch):
    monkeypatch.setattr(stagewise_search, "_TRIAL", {**stagewise_search._TRIAL, "block_size": 16})
    monkeypatch.setattr(stagewise_search, "SIZES", (8, 16))
    monkeypatch.setattr(stagewise_search, "FEATURES", 16)
    callbacks = (lambda snapshot: False,)
    found = search(n_blocks=2, warm_start=True, callbacks=callbacks, random_state=3)
    assert (found.n_blocks, found.warm_start, found.callbacks, found.random_state) == (2, True, callbacks, 3)
    assert found.alpha in stagewise_search.RIDGES
    assert found.block_size in (8, 16)
    assert found.generator.scale in stagewise_search.BANDWIDTHS
    assert found.fit(IRIS, SPECIES).score(IRIS, SPECIES) > 0.9
    found = search(alpha=3e-3, block_size=7, generator="fourier:scale=0.7")
    assert (found.alpha, found.block_size, found.generator.scale) == (3e-3, 7, 0.7)
    assert search(generator="fourier:bandwidth=2.5").generator.bandwidth == 2.5
    tuned = stagewise_search.tuned(IRIS, SPECIES, StagewiseOptions(block_size=9, alpha=1e-7))
    assert tuned.block_size == 9  # not at its default: given


def test_a_larger_block_must_gain_more_than_noise(monkeypatch):
    def run(errors):
        def fit(X, y, trial, sample_weight):
            return None, SimpleNamespace(history=[{"validation": errors[trial.block_size]}])

        monkeypatch.setattr(stagewise_search, "fit_stagewise", fit)
        return stagewise_search.tuned(np.zeros((9000, 1)), np.zeros(9000), StagewiseOptions("subset")).block_size

    assert run({512: 0.100, 1024: 0.099, 2048: 0.098}) == 512
    assert run({512: 0.100, 1024: 0.080, 2048: 0.079}) == 1024
    assert run({512: 0.100, 1024: 0.099, 2048: 0.060}) == 2048


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        (IRIS, SPECIES[:100], {}, "inconsistent numbers of samples"),
        (np.where(IRIS > 7, np.nan, IRIS), SPECIES, {}, "contains NaN"),
        (IRIS, SPECIES, {"sample_rows": 0}, "sample_rows=0"),
        (IRIS, SPECIES, {"update": "lineer"}, "did you mean 'linear'"),
    ],
)
def test_searches_that_cannot_be(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        StagewiseClassifier.search(X, y, **options)


# --- model files

GENERATORS = {
    "fourier": lambda: RandomFourier(),
    "hadamard": lambda: RandomFourier("matern", variant="hadamard", pairs=False),
    "orthogonal": lambda: RandomFourier(variant="orthogonal"),
    "chain": lambda: Chain(PrincipalComponents(n_components=10), RandomFourier()),
    "subset": lambda: features.RandomSubset(),
    "with replacement": lambda: features.RandomSubset(replacement=True),
    "frequency": lambda: features.FrequencyOrdered(),
    "greedy": lambda: features.GreedyResidual(),
    "polynomial": lambda: features.Polynomial(),
    "components": lambda: PrincipalComponents(n_components=40),
    "patches": lambda: features.PatchConvolution(patch=3, n_filters=12),
    "random patches": lambda: features.PatchConvolution(patch=3, filters="random"),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_files_make_the_same_features(name, tmp_path):
    model = StagewiseClassifier(GENERATORS[name](), block_size=30, n_blocks=3, random_state=5, alpha=1e-3)
    model.fit(DIGITS, NUMBERS)
    scores = model.decision_function(DIGITS)
    model.save(tmp_path / "model")
    loaded = lineal.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(DIGITS), scores)
    assert [stage.number for stage in loaded.members[0]] == [stage.number for stage in model.model_.members[0]]
    again = pickle.loads(pickle.dumps(model))
    assert not again.model_._made
    np.testing.assert_array_equal(again.decision_function(DIGITS), scores)
    widths = [len(stage.weights) for stage in loaded.members[0]]
    maker = getattr(loaded.generator, "last", loaded.generator)
    if name != "greedy":
        assert [maker.width_of(stage.number, stage.size) for stage in loaded.members[0]] == widths


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("kind", ["classes", "two classes", "label sets"])
def test_files_of_all_updates(update, kind, tmp_path):
    X, Y = make_multilabel_classification(n_samples=80, n_classes=3, random_state=0)
    y = {"classes": np.array(["a", "b", "c"])[Y.sum(axis=1) % 3], "two classes": Y[:, 0], "label sets": Y}[kind]
    model = classifier(generator=RandomFourier(), update=update, n_models=2).fit(X, y)
    model.save(tmp_path / "model")
    loaded = lineal.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if update == "softmax":
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_loaded_models_go_on(tmp_path):
    from lineal.stagewise.fit import fit_stagewise

    options = StagewiseOptions(generator=RandomFourier(), block_size=16, n_blocks=2, precision="float64")
    model, _ = fit_stagewise(IRIS, SPECIES, options)
    model.save(tmp_path / "model")
    more = dataclasses.replace(options, n_blocks=4)
    longer, _ = fit_stagewise(IRIS, SPECIES, more, start=lineal.load(tmp_path / "model"))
    whole, _ = fit_stagewise(IRIS, SPECIES, more)
    np.testing.assert_allclose(longer.decision_function(IRIS), whole.decision_function(IRIS), atol=1e-7)


def test_generators_of_ones_own_are_not_saved(tmp_path):
    model = classifier().fit(IRIS, SPECIES)
    with pytest.raises(ModelFileError, match=r"Waves has no registered name: see `lineal.features.register`"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def _own(**entries):
    return lambda values, tensors: values["own"].update(entries)


def _block(place, value):
    def change(values, tensors):
        values["own"]["blocks"][1][place] = value

    return change


def _state(**entries):
    return lambda values, tensors: values["own"]["generator"]["state"].update(entries)


def _columns(count):
    def change(values, tensors):
        values["own"]["n_features"] = values["own"]["generator"]["state"]["n_columns_"] = count

    return change


def _tensor(name, change):
    return lambda values, tensors: tensors.update({name: np.ascontiguousarray(change(tensors[name]))})


DAMAGES = [
    _block(0, -1),
    _block(0, 10**30),
    _block(0, "1"),
    _block(1, 0),
    _block(1, 31),
    _block(1, 10**12),
    _block(1, 10**40),
    _block(2, 10**12),
    _block(2, 29),
    _block(3, {"columns": [1, 2]}),
    _own(blocks=[]),
    _own(blocks=[[0, 30]]),
    _own(blocks=[[], [], []]),
    _own(blocks=[0, 1, 2]),
    _block(0, 0),
    _own(blocks="none"),
    _own(members=[1, 1]),
    _own(members=[-1, 4]),
    _own(members=[]),
    _own(update="other"),
    _own(n_features=63),
    _own(n_features=True),
    _own(generator={}),
    _own(generator={"name": "os", "params": {}, "state": {}}),
    _state(bandwidth_=-1.0),
    _state(bandwidth_="wide"),
    _state(seed_=1.5),
    _state(more=1),
    _columns(10**12),
    _tensor("weights", lambda W: W[1:]),
    _tensor("weights", lambda W: W * np.inf),
    _tensor("start", lambda b: b[1:]),
    _tensor("intercepts", lambda b: b.astype(np.float64)),
    lambda values, tensors: tensors.pop("start"),
    lambda values, tensors: tensors.update(extra=np.zeros(3)),
    lambda values, tensors: values.update(classes=[0, 1, 2]),
]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("change", DAMAGES)
def test_damaged_files_are_refused(change, tmp_path):
    path = tmp_path / "model"
    StagewiseClassifier(RandomFourier(), block_size=30, n_blocks=3).fit(DIGITS, NUMBERS).save(path)
    other = rewrite(path, out=tmp_path / "other", change=change)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="damaged"):
            lineal.load(other)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def _first_step(count):
    def change(values, tensors):
        steps = values["own"]["generator"]["state"]["steps_"]
        steps[0]["params"]["n_features"] = steps[1]["state"]["n_columns_"] = count

    return change


@pytest.mark.parametrize("count", [10**9, 2**31 - 1])
def test_files_that_ask_for_much_take_nothing(count, tmp_path):
    """Numbers that could be true are believed, but nothing is made of them before there are rows."""
    path, other = tmp_path / "model", tmp_path / "other"
    tracemalloc.start()
    try:
        StagewiseClassifier(RandomFourier(), block_size=8, n_blocks=1).fit(IRIS, SPECIES).save(path)
        model = lineal.load(rewrite(path, out=other, change=_columns(count)))
        with pytest.raises(DataError, match=f"the model knows {count}"):
            model.predict(IRIS)
        chain = Chain(RandomFourier(n_features=6), RandomFourier())
        StagewiseClassifier(chain, block_size=8, n_blocks=1).fit(IRIS, SPECIES).save(path)
        lineal.load(rewrite(path, out=other, change=_first_step(count)))
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


# --- scikit-learn


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        StagewiseClassifier(RandomFourier(bandwidth=20.0), block_size=40, n_blocks=2, alpha=1e-2, precision="float64"),
        StagewiseClassifier(
            RandomFourier(bandwidth=20.0), update="softmax", inner_iter=20, block_size=40, n_blocks=2, alpha=1e-2,
            precision="float64",
        ),
    ]
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_defaults_on_small_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(StagewiseClassifier(n_blocks=2, block_size=256)).fit(DIGITS[:400], NUMBERS[:400])
    assert model.score(DIGITS[400:], NUMBERS[400:]) >= 0.9
    assert model.certificate_.kind == "none"


def test_calibrated_blocks_stay_finite_on_rows_that_they_have_not_seen():
    """Powers of predictions that are off are further off: without bounds they grow from block to block."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 6)).astype(np.float32), np.arange(120) % 3
    model = StagewiseClassifier(
        "fourier", update="calibrated", block_size=64, n_blocks=30, alpha=1e-9, random_state=0
    ).fit(X, y)
    assert np.abs(model.decision_function(rng.normal(size=(400, 6)).astype(np.float32))).max() < 1e3


def test_calibrated_blocks_go_on_learning():
    """Without a ridge on the powers blocks sharpen what those before have said: some 230 rows are wrong, not 70."""
    X, y = load_digits(return_X_y=True)
    wrong = dict.fromkeys(("linear", "calibrated"), 0)
    for update in wrong:
        for seed in range(3):
            model = StagewiseClassifier(
                "fourier", update=update, block_size=32, n_blocks=60, alpha=1e-6, random_state=seed
            ).fit(X[:1200], y[:1200])
            wrong[update] += np.count_nonzero(model.predict(X[1200:]) != y[1200:])
    assert wrong["calibrated"] <= 1.1 * wrong["linear"]


def test_threads_of_the_fit_are_those_of_its_generator():
    X, y = load_iris(return_X_y=True)
    chain = Chain(PrincipalComponents(3), RandomFourier())
    model = StagewiseClassifier(chain, block_size=16, n_blocks=1, n_jobs=1).fit(X, y)
    assert model.generator_.last.n_jobs == 1
    assert chain.steps[-1].n_jobs is None
    own = StagewiseClassifier(RandomFourier(n_jobs=2), block_size=16, n_blocks=1, n_jobs=1).fit(X, y)
    assert own.generator_.n_jobs == 2
