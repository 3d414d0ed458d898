"""Generators of features: kernels, columns, patches, monomials and chains against formulae, plain twins and peers."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lineal import features
from lineal.core import rng
from lineal.errors import DataError, OptionError
from lineal.features import (
    Chain,
    FrequencyOrdered,
    GreedyResidual,
    PatchConvolution,
    Polynomial,
    PrincipalComponents,
    RandomFourier,
    RandomSubset,
    hadamard,
    patches,
    rows,
)
from lineal.features.base import Generator, checked_features
from lineal.features.serial import from_parts, pack, to_parts, unpack
from lineal.features.waves import waves

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(50, 8))
TEXT = sparse.random(40, 30, density=0.2, format="csr", random_state=1, dtype=np.float32)
IMAGES = RNG.integers(0, 256, size=(6, 9 * 8 * 3)).astype(np.uint8)
RESIDUAL = RNG.normal(size=(40, 3))

# One of each, small; rows that suit it.
EACH = {
    "fourier": (RandomFourier(n_features=16), POINTS),
    "fourier cosines": (RandomFourier("matern", pairs=False, variant="orthogonal"), POINTS),
    "fourier hadamard": (RandomFourier(variant="hadamard"), POINTS),
    "subset": (RandomSubset(), TEXT),
    "subset replacement": (RandomSubset(replacement=True), TEXT),
    "frequency": (FrequencyOrdered(), TEXT),
    "greedy": (GreedyResidual(), TEXT),
    "patches": (PatchConvolution((9, 8, 3), "patches", patch=3, n_filters=20), IMAGES),
    "patches random": (PatchConvolution((9, 8, 3), "random", patch=3, squares=True), IMAGES),
    "polynomial": (Polynomial(3), POINTS),
    "pca": (PrincipalComponents(6), POINTS),
    "chain": (Chain(PrincipalComponents(4), RandomFourier()), POINTS),
    "chain of greedy": (Chain(FrequencyOrdered(n_features=20), GreedyResidual()), TEXT),
}
SIZE = 16


def residual_of(generator, X):
    return (X, RESIDUAL[: X.shape[0]]) if generator.needs_residual else None


def prepared(name, seed=3):
    generator, X = EACH[name]
    return clone(generator).prepare(X, seed), X


@pytest.fixture(autouse=True)
def few_patches(monkeypatch):
    """A smaller sample: what is tested does not depend on it."""
    monkeypatch.setattr(patches, "SAMPLE", 2000)


# Random numbers and waves.


def test_normal_numbers():
    out = np.empty(100_001)
    rng.fill_normal(rng.generator(5), out)
    assert abs(out.mean()) < 0.01
    assert abs(out.var() - 1.0) < 0.02
    assert abs((out**4).mean() - 3.0) < 0.1
    assert abs(np.corrcoef(out[:-1:2], out[1::2])[0, 1]) < 0.015
    first = np.empty(7)
    rng.fill_normal(rng.generator(5), first)
    assert np.array_equal(first, out[:7])
    # The integers behind them are the same everywhere, so that these are too, to rounding.
    assert first[:3] == pytest.approx([0.10688097959604548, 1.3692833889955711, -1.0621239223901324], abs=1e-12)


@pytest.mark.core
@pytest.mark.parametrize("half", [30, 31, 60])
def test_waves_are_cosines_and_sines(half):
    # turns of all sizes: beyond 2**23 every float32 is a whole number of turns
    t = (RNG.normal(size=(40, half)) * 10.0 ** RNG.uniform(-9, 12, size=(40, half))).astype(np.float32)
    t[0, :8] = [0.0, 0.25, -0.25, 0.5, -0.5, 0.49999997, 1.5, -3.75]
    F = np.zeros((40, 60), np.float32)
    F[:, :half] = t
    phases = RNG.random(half).astype(np.float32) if half == 60 else None
    turns = t.astype(np.float64) if phases is None else (t + phases).astype(np.float64)
    angles = 2.0 * np.pi * (turns - np.rint(turns))
    expected = np.hstack([np.cos(angles), np.sin(angles[:, : 60 - half])])
    assert np.abs(waves(F.copy(), half, phases, 1.0, threads=2) - expected).max() < 5e-7
    assert np.array_equal(waves(F.copy(), half, phases, 0.3), waves(F.copy(), half, phases, 0.3, threads=3))
    wide = F.astype(np.float64) if phases is None else (F + phases).astype(np.float64)
    assert np.abs(waves(wide, half, None, 1.0) - expected).max() < 1e-12
    shifted = waves(np.zeros((1, half)), half, phases, 2.0) if phases is not None else 2.0
    assert np.abs(shifted - (2.0 if phases is None else 2.0 * np.cos(2.0 * np.pi * phases.astype(float)))).max() < 1e-12


@pytest.mark.core
def test_waves_do_not_hide_what_is_not_finite():
    F = np.array([[np.inf, np.nan, -np.inf, 0.0]], np.float32)
    with np.errstate(invalid="ignore"):
        assert np.isnan(waves(F, 4, None, 1.0)[0, :3]).all()


@pytest.mark.core
def test_hadamard_transform():
    H = np.array([[1.0]])
    for _ in range(4):
        H = np.block([[H, H], [H, -H]])
    x = RNG.normal(size=(16, 2))
    flat = x.reshape(-1).copy()
    hadamard.transform(flat, 2)
    np.testing.assert_allclose(flat.reshape(16, 2), H @ x, atol=1e-12)


# Fourier features.


def kernel_of(generator, X):
    s = generator.bandwidth_
    if generator.kernel == "laplacian":
        return laplacian_kernel(X, gamma=1.0 / s)
    return (
        rbf_kernel(X, gamma=1.0 / s) if generator.kernel == "gaussian" else Matern(np.sqrt(s / 2), nu=generator.nu)(X)
    )


def kernel_error(generator, size, X=POINTS, blocks=6):
    K = kernel_of(generator, X)
    errors = []
    for number in range(blocks):
        F = generator.make(number, size).transform(X)
        errors.append(np.mean((F @ F.T - K) ** 2))
    return np.sqrt(np.mean(errors))


KINDS = [
    ("gaussian", "iid"),
    ("gaussian", "orthogonal"),
    ("gaussian", "hadamard"),
    ("laplacian", "iid"),
    ("matern", "iid"),
    ("matern", "orthogonal"),
    ("matern", "hadamard"),
]


@pytest.mark.parametrize(("kernel", "variant"), KINDS)
@pytest.mark.parametrize("pairs", [True, False])
def test_products_of_features_approach_the_kernel(kernel, variant, pairs):
    generator = RandomFourier(kernel, nu=2.5, variant=variant, pairs=pairs).prepare(POINTS, 1)
    sizes = [64, 512, 4096]
    errors = [kernel_error(generator, size) for size in sizes]
    for size, error in zip(sizes, errors):
        assert 0.25 < error * np.sqrt(size) < 1.2, (size, error)  # 1/√D, and no floor


def test_orthogonal_frequencies_have_less_error():
    plain, orthogonal, structured = (
        kernel_error(RandomFourier(variant=variant).prepare(POINTS, 1), 256)
        for variant in ("iid", "orthogonal", "hadamard")
    )
    assert orthogonal < 0.75 * plain
    assert structured < 0.75 * plain


@pytest.mark.parametrize("variant", ["iid", "orthogonal", "hadamard"])
@pytest.mark.parametrize("d", [1, 2, 65])
def test_few_and_many_columns(variant, d):
    X = RNG.normal(size=(30, d))
    generator = RandomFourier(variant=variant).prepare(X)
    assert kernel_error(generator, 1001, X, blocks=4) < 0.05


def test_orthogonal_frequencies_are():
    V = RandomFourier(variant="orthogonal").prepare(POINTS).make(0, 40).frequencies.V.astype(np.float64)
    V /= np.linalg.norm(V, axis=0)
    for start in (0, 8):
        np.testing.assert_allclose(V[:, start : start + 8].T @ V[:, start : start + 8], np.eye(8), atol=1e-6)


def test_median_bandwidth():
    pairs = itertools.combinations(range(len(POINTS)), 2)
    exact = np.median([np.sum((POINTS[i] - POINTS[j]) ** 2) for i, j in pairs])
    assert RandomFourier().prepare(POINTS).bandwidth_ == pytest.approx(exact, rel=0.05)
    assert RandomFourier(scale=3.0).prepare(POINTS).bandwidth_ == pytest.approx(3 * exact, rel=0.05)
    for kernel in ("gaussian", "laplacian"):
        found = [RandomFourier(kernel).prepare(X).bandwidth_ for X in (POINTS, sparse.csr_array(POINTS))]
        assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert RandomFourier(bandwidth=7).prepare(POINTS).bandwidth_ == 7.0
    mostly_equal = np.zeros((100, 2))
    mostly_equal[:3] = 1.0
    assert RandomFourier().prepare(mostly_equal).bandwidth_ == 2.0
    for same in (np.ones((5, 2)), np.ones((1, 1)), sparse.csr_array((3, 4))):
        generator = RandomFourier().prepare(same)
        assert generator.bandwidth_ == 1.0
        assert np.isfinite(generator.make(0, 8).transform(same)).all()


def test_with_bandwidth_changes_nothing_else():
    generator = RandomFourier().prepare(POINTS, 4)
    other = generator.with_bandwidth(4 * generator.bandwidth_)
    np.testing.assert_array_equal(other.make(1, 8).frequencies.V * 2, generator.make(1, 8).frequencies.V)
    chain = Chain(PrincipalComponents(3), RandomFourier()).prepare(POINTS, 4)
    assert chain.with_bandwidth(2.0).bandwidth_ == 2.0
    assert chain.bandwidth_ != 2.0
    assert clone(chain.with_bandwidth(2.0)).prepare(POINTS).bandwidth_ == 2.0


def test_scales_of_the_data_do_not_matter():
    plain = RandomFourier().prepare(POINTS).make(0, 32).transform(POINTS)
    for factor in (1e-20, 1e20):
        X = POINTS * factor
        np.testing.assert_allclose(RandomFourier().prepare(X).make(0, 32).transform(X), plain, atol=1e-6)
    with pytest.raises(DataError, match="scale the columns"):
        RandomFourier().prepare(POINTS * 1e200)


# What all generators have in common.


@pytest.mark.core
@pytest.mark.parametrize("name", EACH)
def test_blocks_are_a_function_of_seed_number_and_size(name):
    generator, X = prepared(name)
    again, _ = prepared(name)
    blocks = [generator.make(number, SIZE, residual_of(generator, X)) for number in range(2)]
    F = [block.transform(X) for block in blocks]
    # made in another order (where the order does not decide), after a pickle, and from the state alone
    order = (0, 1) if generator.needs_residual else (1, 0)
    for number in order:
        assert np.array_equal(again.make(number, SIZE, residual_of(again, X)).transform(X), F[number])
    params = generator.get_params(deep=False)
    restored = type(generator).restored(params, generator.state())
    for other in (pickle.loads(pickle.dumps(generator)), restored):
        for number in range(2):
            remade = other.remake(number, SIZE, blocks[number].state())
            assert remade.width == blocks[number].width
            assert np.array_equal(remade.transform(X), F[number])
    if F[1].shape == F[0].shape and F[0].shape[1]:
        assert not np.array_equal(F[0], F[1])


@pytest.mark.parametrize("name", EACH)
def test_other_seeds_give_other_features(name):
    first, X = prepared(name, 3)
    second, _ = prepared(name, 4)
    F, G = (g.make(0, SIZE, residual_of(g, X)).transform(X) for g in (first, second))
    draws = name.split()[0] in ("fourier", "subset", "patches", "chain") and not first.needs_residual
    assert np.array_equal(F, G) != draws


@pytest.mark.parametrize("name", EACH)
def test_types_and_layouts(name):
    generator, X = prepared(name)
    block = generator.make(0, SIZE, residual_of(generator, X))
    assert 0 < block.width <= SIZE
    wide = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
    expected = block.transform(wide)
    np.testing.assert_allclose(block.transform(X), expected, atol=1e-5 * np.abs(expected).max())
    assert expected.dtype == np.float64
    narrow = wide.astype(np.float32)
    narrow.flags.writeable = False
    long = sparse.csr_array(narrow)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    scale = np.abs(expected).max()
    for rows_given in (
        narrow,
        np.asfortranarray(narrow),
        sparse.csr_array(narrow),
        long,
        narrow[:, ::-1][:, ::-1],
    ):
        F = block.transform(rows_given)
        assert F.dtype == np.float32
        assert F.shape == (len(wide), block.width)
        assert F.flags.c_contiguous
        assert np.abs(F - expected).max() < 2e-5 * scale
    half = wide.astype(np.float16)
    assert np.abs(block.transform(half) - block.transform(half.astype(np.float32))).max() == 0.0
    assert block.transform(narrow[:0]).shape == (0, block.width)
    assert block.transform(narrow[:1]).shape == (1, block.width)
    np.testing.assert_allclose(block.transform(narrow[2:5]), block.transform(narrow)[2:5], atol=2e-5 * scale)


@pytest.mark.parametrize("name", EACH)
def test_generators_go_through_json_and_arrays(name):
    generator, X = prepared(name)
    block = generator.make(0, SIZE, residual_of(generator, X))
    description, tensors = to_parts(generator)
    back = from_parts(json.loads(json.dumps(description, allow_nan=False)), dict(tensors))
    states: dict = {}
    state = unpack(json.loads(json.dumps(pack(block.state(), states, "block"))), states)
    assert np.array_equal(back.remake(0, SIZE, state).transform(X), block.transform(X))
    assert to_parts(back)[0] == description
    text = json.dumps(description)
    assert "n_jobs" not in text
    # hostile files: something missing, of another type, not finite, of another shape
    for damaged in damages(json.loads(text)):
        with pytest.raises(ValueError):
            from_parts(damaged, dict(tensors)).remake(0, SIZE, state)
    for key in tensors:
        others = {other: tensor for other, tensor in tensors.items() if other != key}
        with pytest.raises(ValueError, match="missing"):
            from_parts(description, others)
        if tensors[key].size:
            with pytest.raises(ValueError):
                from_parts(description, {**others, key: tensors[key][:-1]})
            broken = tensors[key].copy()
            broken.reshape(-1)[0] = -5 if broken.dtype.kind == "i" else np.nan
            if key.rpartition(".")[2] != "numbers_":
                with pytest.raises(ValueError):
                    from_parts(description, {**others, key: broken})
        with pytest.raises(ValueError):
            from_parts(description, {**others, key: tensors[key].astype(str)})
    with pytest.raises(ValueError, match="no use"):
        from_parts(description, {**tensors, "more": np.zeros(1)})


def damages(description):
    for key in ("name", "params", "state"):
        yield {other: description[other] for other in description if other != key}
        yield {**description, key: 3}
    yield []
    yield {**description, "name": "no such generator"}
    yield {**description, "params": {**description["params"], "unknown": 1}}
    yield {**description, "state": {**description["state"], "unknown": 1}}
    for key in description["state"]:
        yield {**description, "state": {other: v for other, v in description["state"].items() if other != key}}
        yield {**description, "state": {**description["state"], key: "text"}}
    yield {**description, "state": {**description["state"], "n_columns_": -1}}
    yield {**description, "state": {**description["state"], "seed_": 0.5}}
    deep: list = []
    for _ in range(500):
        deep = [deep]
    yield {**description, "params": {"n_features": deep}}


def test_registry():
    assert {"fourier", "subset", "frequency", "greedy", "patches", "polynomial", "chain", "pca"} <= set(
        features.names()
    )
    for name in features.names():
        assert features.get(name).name == name
    with pytest.raises(OptionError, match="fourier"):
        features.get("fourrier")

    class Halves(Generator):
        name = "fourier"

        def _make(self, number, size, residual):
            raise AssertionError("nobody makes a block of it")

    with pytest.raises(OptionError, match="taken"):
        features.register(Halves)
    with pytest.raises(ValueError, match="register"):
        to_parts(Halves().prepare(POINTS))
    Halves.name = "halves of a test"
    assert features.register(features.register(Halves)) is Halves
    assert isinstance(from_parts(*to_parts(Halves().prepare(POINTS))), Halves)
    features._REGISTERED.clear()


def test_importing_loads_neither_numba_nor_scikit_learn():
    code = "import sys, lineal.features as f; f.names(); print('numba' in sys.modules or 'sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_wrong_features_are_named():
    good = np.zeros((3, 2), np.float32)
    assert checked_features(good, 3, 2, "mine") is good
    large = np.full((3, 2), 3e38, np.float32)
    assert checked_features(large, 3, 2, "mine") is large
    wrong = [good[:, :1], good[:2], good.astype(int), good.astype(np.float16), good.tolist(), sparse.csr_array(good)]
    for value in (np.nan, np.inf):
        bad = good.copy()
        bad[1, 1] = value
        wrong.append(bad)
    for F in wrong:
        with pytest.raises(DataError, match="mine, batch 4"):
            checked_features(F, 3, 2, "mine, batch 4")


@pytest.mark.parametrize(
    "generator",
    [
        RandomFourier(kernel="cubic"),
        RandomFourier(variant="odd"),
        RandomFourier(bandwidth="mean"),
        RandomFourier(bandwidth=0.0),
        RandomFourier(bandwidth=True),
        RandomFourier(scale=-1.0),
        RandomFourier(nu="x"),
        RandomFourier("laplacian", variant="orthogonal"),
        PrincipalComponents(0),
        PrincipalComponents(2, stress="x"),
        PrincipalComponents(1.5),
        Polynomial(0),
        Polynomial(11),
        Chain(),
        Chain(RandomFourier(), StandardScaler()),
        Chain("pca", RandomFourier()),
        PatchConvolution((9, 8, 2)),
        PatchConvolution((72,)),
        PatchConvolution((2, 4), patch=3),
        PatchConvolution((2, 4), patch=2, pool=2),
        PatchConvolution((2, 4), "haar"),
        PatchConvolution((2, 4), patch=2, pool=1, threshold=-1.0),
        PatchConvolution((2, 4), patch=2, pool=1, quantile=1.0),
        PatchConvolution((2, 4), patch=2, pool=1, threshold="high"),
        PatchConvolution((2, 4), patch=2, pool=1, threshold=None),
        PatchConvolution((2, 4), patch=2, pool=1, quantile="half"),
        PatchConvolution((2, 4), patch=2, pool=1, whiten="no"),
        PatchConvolution((2, 4), patch=2, pool=1, squares=1),
        RandomFourier(pairs="no"),
        RandomSubset(replacement="yes"),
        Polynomial(interactions_only=0),
    ],
)
def test_options_that_cannot_be_honoured(generator):
    with pytest.raises((OptionError, DataError)):
        generator.prepare(POINTS)


def test_blocks_that_are_none():
    generator = RandomSubset().prepare(TEXT)
    for number, size in ((-1, 4), (0, 0)):
        with pytest.raises(OptionError, match="does not exist"):
            generator.make(number, size)
    with pytest.raises(ValueError, match="has no state"):
        generator.remake(0, 4, {"columns": np.arange(4)})
    with pytest.raises(DataError, match="at least one row"):
        generator.prepare(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="prepare"):
        RandomSubset().make(0, 4)


# Columns.


def test_subsets_without_replacement_are_a_permutation():
    generator = RandomSubset().prepare(TEXT, 7)
    blocks = [generator.make(number, 7) for number in range(6)]
    assert [block.width for block in blocks] == [7, 7, 7, 7, 2, 0]
    assert sorted(np.concatenate([block.columns for block in blocks])) == list(range(30))
    assert blocks[5].transform(TEXT).shape == (40, 0)
    again = RandomSubset(replacement=True).prepare(TEXT, 7)
    drawn = [again.make(number, 7).columns for number in range(20)]
    assert all(len(set(columns)) == 7 for columns in drawn)
    assert len(set(np.concatenate(drawn))) > 25
    assert again.make(0, 50).width == 30


@pytest.mark.parametrize("name", ["subset", "frequency"])
def test_column_features_are_columns(name):
    generator, X = prepared(name)
    for number in range(2):
        block = generator.make(number, 9)
        assert np.array_equal(block.transform(X), X.toarray()[:, block.columns])
        assert np.array_equal(block.transform(X.toarray()), X.toarray()[:, block.columns])


def test_frequent_columns_come_first():
    X = TEXT.copy()
    X.data[::5] = 0.0  # stored, but zero
    for given in (X, X.toarray(), X.tocsc()):
        counts = (X.toarray() != 0).sum(axis=0)
        expected = sorted(range(30), key=lambda j: (-counts[j], j))
        assert FrequencyOrdered().prepare(given).order_.tolist() == expected
    generator = FrequencyOrdered().prepare(X)
    assert np.concatenate([generator.make(i, 8).columns for i in range(5)]).tolist() == expected


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_greedy_columns_are_the_most_correlated(layout):
    dense = TEXT.toarray().astype(np.float64)
    dense[:, 5] = 0.0
    dense[:, 9] = dense[:, 3]
    X, R = layout(dense), RESIDUAL.copy()
    generator = GreedyResidual().prepare(X)
    used: list[int] = []
    for number in range(5):
        scores = [
            -1.0
            if j in used or not dense[:, j].any()
            else np.linalg.norm(dense[:, j] @ R) / np.linalg.norm(dense[:, j])
            for j in range(30)
        ]
        expected = [j for j in sorted(range(30), key=lambda j: -scores[j])[:8] if scores[j] >= 0.0]
        block = generator.make(number, 8, (X, R))
        np.testing.assert_allclose(np.array(scores)[block.columns], np.array(scores)[expected])  # 3 and 9 are equal
        assert set(block.columns) - {3, 9} == set(expected) - {3, 9}
        used += block.columns.tolist()
        R = R - dense[:, block.columns] @ np.linalg.lstsq(dense[:, block.columns], R, rcond=None)[0]
    assert sorted(used) == [j for j in range(30) if j != 5]
    assert generator.make(5, 8, (X, R)).width == 0
    assert np.array_equal(generator.make(1, 8).columns, used[8:16])
    restored = GreedyResidual.restored({}, generator.state())
    assert restored.make(6, 8, (X, R)).width == 0
    with pytest.raises(OptionError, match="residual"):
        restored.make(9, 8)
    with pytest.raises(ValueError):
        restored.remake(9, 8, {"columns": np.array([40])})
    with pytest.raises(DataError):
        restored.make(9, 8, (X, R[1:]))


# Patches.


def slow_convolution(generator, D, image, squares):
    """Plain loops over places, regions and filters, of one float64 image."""
    height, width, channels = generator.image_shape_
    image = image.reshape(height, width, channels)
    patch, stride, pool = generator.patch, generator.stride, generator.pool
    tops, lefts = range(0, height - patch + 1, stride), range(0, width - patch + 1, stride)
    pooled, counts = np.zeros((pool, pool, 2, len(D))), np.zeros((pool, pool))
    for y, top in enumerate(tops):
        for x, left in enumerate(lefts):
            p = image[top : top + patch, left : left + patch].reshape(-1) - generator.mean_
            region = y * pool // len(tops), x * pool // len(lefts)
            counts[region] += 1
            for j in range(len(D)):
                pooled[region][0, j] += max(D[j] @ p - generator.threshold_, 0.0)
                pooled[region][1, j] += max(-D[j] @ p - generator.threshold_, 0.0)
    if generator.pooling == "mean":
        pooled /= counts[:, :, None, None]
    flat = pooled.reshape(-1)
    return np.concatenate([flat, flat**2]) if squares else flat


@pytest.mark.core
@pytest.mark.parametrize("filters", ["kmeans", "patches", "random"])
@pytest.mark.parametrize("settings", [{}, {"stride": 2, "pool": 3, "patch": 2, "pooling": "sum", "squares": True}])
def test_convolution_is_what_it_says(filters, settings):
    options = {"patch": 3, "n_filters": 5, "quantile": 0.6, **settings}
    generator = PatchConvolution((9, 8, 3), filters, **options).prepare(IMAGES, 2)
    each = 2 * generator.pool**2 * (2 if generator.squares else 1)
    widths = [generator.make(number, 3 * each + 1).width for number in range(3)]
    assert widths == ([3 * each] * 3 if filters == "random" else [3 * each, 2 * each, 0])
    block = generator.make(1, 3 * each)
    D = block.filters.T.astype(np.float64)
    for image, found in zip(IMAGES, block.transform(IMAGES)):
        expected = slow_convolution(generator, D, image.astype(float), generator.squares)
        np.testing.assert_allclose(found, expected, atol=2e-5 * max(1.0, np.abs(expected).max()))
    one, two = (clone(generator).set_params(n_jobs=n).prepare(IMAGES, 2).make(1, 3 * each) for n in (1, 2))
    assert np.array_equal(one.transform(IMAGES), two.transform(IMAGES))
    with pytest.raises(OptionError, match="too small"):
        generator.make(0, each - 1)


def test_whitened_patches_are_uncorrelated_and_the_threshold_is_a_quantile():
    grid = patches.Grid(9, 8, 3, 3, 1, 2)
    smooth = np.cumsum(IMAGES / 255.0, axis=1)
    P = patches.sampled(smooth, grid, rng.generator(0))
    P -= P.mean(axis=0)
    Z = P @ patches.whitening(P)
    C = Z.T @ Z / len(Z)
    spread = np.linalg.eigvalsh(C)
    assert spread.max() <= 1.0 + 1e-9
    loose = PatchConvolution((9, 8, 3), "patches", patch=3, quantile=0.2).prepare(IMAGES)
    strict = PatchConvolution((9, 8, 3), "patches", patch=3, quantile=0.9).prepare(IMAGES)
    assert 0.0 < loose.threshold_ < strict.threshold_
    D = strict.bank_[:64]
    R = (patches.sampled(IMAGES, grid, rng.generator(0, -1)) - strict.mean_) @ D.T
    assert np.mean(np.abs(R) <= strict.threshold_) == pytest.approx(0.9, abs=1e-3)


def test_without_whitening_bytes_have_the_scale_of_fractions():
    generator = PatchConvolution((9, 8, 3), "patches", patch=3, n_filters=20, whiten=False)
    fractions = (IMAGES / 255.0).astype(np.float32)
    ours, theirs = (clone(generator).prepare(X).make(0, SIZE).transform(X) for X in (IMAGES, fractions))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_kmeans_finds_directions():
    directions = np.linalg.qr(RNG.normal(size=(12, 12)))[0][:3]
    Z = (RNG.choice([-1.0, 1.0], 600)[:, None] * directions[RNG.integers(0, 3, 600)]).astype(np.float32)
    Z += 0.05 * RNG.normal(size=Z.shape).astype(np.float32)
    D = patches.spherical_means(Z, 6, rng.generator(1))
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1.0, atol=1e-5)
    assert (np.abs(D @ directions.T).max(axis=0) > 0.97).all()


@pytest.mark.parametrize("colour", [np.uint8(7), np.float32(0.1), 0.1, 1000.3])  # 0.1 has a mean that rounds
@pytest.mark.parametrize("filters", ["kmeans", "patches", "random"])
def test_images_of_one_colour(filters, colour):
    X = np.full((2, 36), colour)
    F = PatchConvolution(filters=filters, patch=3, n_filters=4, n_features=16).fit(X).transform(X)
    assert F.shape == (2, 16)
    assert np.abs(F).max() < 1e-6 * colour


# Monomials, components, chains.


@pytest.mark.parametrize("interactions_only", [False, True])
@pytest.mark.parametrize(("d", "degree"), [(1, 3), (4, 1), (4, 3), (5, 4), (3, 5)])
def test_monomials_are_those_of_scikit_learn(d, degree, interactions_only):
    X = RNG.normal(size=(6, d))
    theirs = PolynomialFeatures(degree, interaction_only=interactions_only, include_bias=False)
    expected = theirs.fit_transform(X)
    ours = Polynomial(degree, interactions_only, n_features=None).fit(X)
    np.testing.assert_allclose(ours.transform(X), expected, rtol=1e-12)
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    blocks = [ours.make(number, 4).transform(X) for number in range(expected.shape[1] // 4 + 2)]
    np.testing.assert_allclose(np.hstack(blocks), expected, rtol=1e-12)
    assert blocks[-1].shape == (6, 0)


def test_monomials_of_very_many_columns():
    X = sparse.csr_array(([2.0, 3.0], ([0, 0], [5, 999_999])), shape=(1, 1_000_000))
    generator = Polynomial(3).prepare(X)
    assert generator.n_monomials == 1_000_000 + 500_000_500_000 + 1_000_000 * 1_000_001 * 1_000_002 // 6
    size = 1000
    last = generator.make((generator.n_monomials - 1) // size, size)
    assert last.terms[-1].tolist() == [999_999] * 3
    assert last.transform(X)[0, -1] == 27.0
    assert generator.make(generator.n_monomials // size + 1, size).width == 0
    with pytest.raises(OptionError, match="too many"):
        Polynomial(3, n_features=None).fit(sparse.csr_array(np.ones((1, 400))))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("limit", [2500, 5])
def test_components_are_those_of_scikit_learn(layout, limit, monkeypatch):
    monkeypatch.setattr("lineal.features.components.COVARIANCE_COLUMNS", limit)
    monkeypatch.setattr("lineal.features.components.PASSES", 60)
    X = RNG.normal(size=(60, 20)) * 1.3 ** -np.arange(20.0) + 5.0
    theirs = PCA(6).fit(X)
    ours = PrincipalComponents(6, stress=0.0).fit(layout(X))
    np.testing.assert_allclose(ours.variances_, theirs.explained_variance_ * 59 / 60, rtol=1e-8)
    Z, expected = ours.transform(layout(X)), theirs.transform(X)
    signs = np.sign((Z * expected).sum(axis=0))
    np.testing.assert_allclose(Z * signs, expected, atol=1e-6)
    largest = ours.components_[np.abs(ours.components_).argmax(axis=0), np.arange(6)]
    assert (largest > 0.0).all()
    stressed = PrincipalComponents(6, stress=0.15).fit(layout(X)).transform(layout(X))
    np.testing.assert_allclose(stressed, Z * ours.variances_**0.15, atol=1e-6)
    white = PrincipalComponents(6, stress=-0.5).fit(layout(X)).transform(layout(X))
    np.testing.assert_allclose(white.T @ white / 60, np.eye(6), atol=1e-6)


def test_components_of_narrow_and_constant_rows():
    X = RNG.normal(size=(40, 6))
    X[:, 1] = X[:, 0]
    X[:, 2] = 3.0
    for given in (X, X.astype(np.float32)):
        generator = PrincipalComponents(50).fit(given)
        assert len(generator.variances_) == 4
        assert [generator.make(number, 3).width for number in range(3)] == [3, 1, 0]
    for same in (np.ones((5, 3)), np.ones((1, 1)), np.full((3, 2), 200, np.uint8)):
        for stress in (0.15, -0.5):
            Z = PrincipalComponents(2, stress=stress).fit(same).transform(same)
            assert Z.shape == (len(same), 1)
            assert not Z.any()
    tiny, huge = (PrincipalComponents(2, stress=0.0).fit((X * f).astype(np.float32)) for f in (1e-25, 1e18))
    np.testing.assert_allclose(huge.variances_ / 1e36, tiny.variances_ * 1e50, rtol=1e-4)
    with pytest.raises(DataError, match="scale"):
        PrincipalComponents(2).fit(X * 1e200)
    offset = (RNG.normal(size=(50, 4)) + 1000.0).astype(np.float32)
    Z = PrincipalComponents(4, stress=0.0).fit(offset).transform(offset)
    np.testing.assert_allclose(Z @ Z.T, (offset - offset.mean(axis=0)) @ (offset - offset.mean(axis=0)).T, atol=0.05)


def test_a_chain_is_its_steps():
    chain = Chain(PrincipalComponents(4), RandomFourier()).prepare(POINTS, 9)
    pca = PrincipalComponents(4).prepare(POINTS)
    Z = pca.make(0, 4).transform(POINTS)
    F = chain.make(2, 10).transform(POINTS)
    fourier = chain.steps_[1]
    assert RandomFourier().prepare(Z, fourier.seed_).bandwidth_ == fourier.bandwidth_
    assert np.array_equal(F, fourier.make(2, 10).transform(Z))
    assert np.array_equal(F, chain.last.make(2, 10).transform(chain.before(POINTS)))
    alone = Chain(RandomFourier()).prepare(POINTS, 9)
    assert np.array_equal(
        alone.make(1, 6).transform(POINTS), RandomFourier().prepare(POINTS, 9).make(1, 6).transform(POINTS)
    )
    longer = Chain(PrincipalComponents(4), Chain(PrincipalComponents(2), RandomFourier())).prepare(POINTS, 9)
    back = from_parts(*to_parts(longer))
    assert np.array_equal(back.make(1, 6).transform(POINTS), longer.make(1, 6).transform(POINTS))
    two = Chain(RandomFourier(n_features=8, bandwidth=3.0), RandomFourier(bandwidth=3.0)).prepare(POINTS, 9)
    assert two.steps_[0].seed_ != two.steps_[1].seed_


def test_chains_with_others_steps(monkeypatch):
    class Mine:
        n_features = 3

        def prepare(self, X, seed=0):
            self.seed = seed
            return self

        def make(self, number, size, residual=None):
            return MyBlock(number, size)

    class MyBlock:
        def __init__(self, number, size):
            self.number, self.width = number, size

        def transform(self, X):
            return np.full((X.shape[0], self.width), X.sum() + self.number)

    chain = Chain(StandardScaler(), Mine()).prepare(POINTS)
    F = chain.make(4, 5).transform(POINTS)
    np.testing.assert_allclose(F, np.full((50, 5), 4.0), atol=1e-9)
    assert np.array_equal(chain.remake(4, 5, {}).transform(POINTS), F)
    with pytest.raises(ValueError, match="StandardScaler"):
        to_parts(chain)
    # a sample of the rows prepares later steps where all would be too many
    monkeypatch.setattr("lineal.features.chain.PREPARED", 40)
    small = Chain(PrincipalComponents(2), PrincipalComponents(2)).prepare(POINTS, 1)
    assert small.steps_[1].mean_.shape == (2,)
    assert np.abs(small.steps_[1].mean_).max() > 1e-6  # that of 20 rows


def test_chain_parameters():
    chain = Chain(PrincipalComponents(4), RandomFourier(), n_features=6)
    assert chain.get_params()["1__scale"] == 1.0
    other = clone(chain).set_params(**{"1__scale": 2.0, "n_features": 5, "0__n_components": 2})
    assert (chain.steps[1].scale, other.steps[1].scale, other.n_features, other.steps[0].n_components) == (
        1.0,
        2.0,
        5,
        2,
    )
    for name in ("scale", "2__scale", "x__scale"):
        with pytest.raises(ValueError, match="no parameter"):
            chain.set_params(**{name: 1})
    with pytest.raises(ValueError):
        chain.set_params(**{"1__sacle": 1})
    assert "PrincipalComponents" in repr(chain)


def test_sampled_rows():
    for n, size in ((5, 9), (50, 20), (1000, 20)):
        drawn = rows.sample(n, size, 3, -1)
        assert len(drawn) == min(n, size)
        assert (np.diff(drawn) > 0).all()
        assert drawn[-1] < n
        assert np.array_equal(drawn, rows.sample(n, size, 3, -1))


# As scikit-learn transformers. PatchConvolution is not among them: the checks have no images.


def explained(estimator):
    if isinstance(estimator, Chain):
        return {
            "check_no_attributes_set_in_init": "steps are positional, which the check does not look for",
            "check_do_not_raise_errors_in_init_or_set_params": "steps are positional",
        }
    return {}


@parametrize_with_checks(
    [
        RandomFourier(n_features=9),
        RandomFourier(n_features=9, variant="hadamard", pairs=False),
        RandomSubset(n_features=2),
        FrequencyOrdered(n_features=2),
        GreedyResidual(n_features=2),
        Polynomial(n_features=9),
        PrincipalComponents(2),
        Chain(PrincipalComponents(2), RandomFourier(), n_features=9),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_a_chain_that_ends_with_greedy_columns_is_a_transformer():
    y = np.arange(40) % 3
    chain = Chain(FrequencyOrdered(n_features=20), GreedyResidual(), n_features=5).fit(TEXT, y)
    first = FrequencyOrdered(n_features=20).fit(TEXT)
    columns = GreedyResidual(n_features=5).fit(first.transform(TEXT), y).block_.columns
    np.testing.assert_array_equal(chain.transform(TEXT), first.transform(TEXT)[:, columns])
    with pytest.raises(ValueError, match="Chain requires y"):
        clone(chain).fit(TEXT)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fourier:scale=0.5,scale=2", "scale is given twice"),
        ("fourier:pairs=no", "pairs='no'"),
        ("pca+fourier:scale=-1", "scale=-1"),
        ("patches:threshold=none", "threshold=None"),
        ("fourier+", r"features='' is unknown"),
        ("", r"features='' is unknown"),
    ],
)
def test_texts_that_cannot_be_honoured(text, message):
    with pytest.raises(OptionError, match=message):
        features.parse(text)


def test_numbers_in_texts():
    chain = features.parse("pca:n_components=5 + fourier:scale=1e+1,bandwidth=2.5e-3")
    assert [step.name for step in chain.steps] == ["pca", "fourier"]
    assert (chain.steps[1].scale, chain.steps[1].bandwidth) == (10.0, 2.5e-3)


def test_transformers_in_a_search():
    X, y = IMAGES[:, :60].astype(np.float32), np.array([0, 1] * 3)
    pipeline = make_pipeline(Chain(PrincipalComponents(3), RandomFourier(), n_features=8), RidgeClassifier())
    search = GridSearchCV(pipeline, {"chain__1__scale": [0.5, 2.0]}, cv=2).fit(X, y)
    assert search.predict(X).shape == (6,)


@pytest.mark.parametrize("name", EACH)
def test_transform_by_chunks(name, monkeypatch):
    generator, X = clone(EACH[name][0]), EACH[name][1]
    if name.startswith("chain of"):
        generator = Chain(FrequencyOrdered(n_features=20), RandomSubset())
    if not isinstance(generator, PrincipalComponents):
        generator.set_params(n_features=SIZE)
    y = np.arange(X.shape[0]) % 3
    whole = generator.fit(X, y).transform(X)
    assert len(generator.get_feature_names_out()) == whole.shape[1]
    monkeypatch.setattr(rows, "CHUNK", 3 * X.shape[1])
    np.testing.assert_allclose(generator.transform(X), whole, rtol=1e-4, atol=1e-5)
