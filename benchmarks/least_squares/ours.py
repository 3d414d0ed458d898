"""What the parts ask of lineal: features, timed fits, and the error after every block of a stagewise model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.least_squares.problems import COMPONENTS, SCALE, STRESS, Plan, Sets, percent_wrong
from lineal import LeastSquaresClassifier, StagewiseClassifier
from lineal.errors import DataError
from lineal.features import Chain, PrincipalComponents, RandomFourier
from lineal.solvers.stagewise.features import maker_of, through
from lineal.solvers.stagewise.running import add_stage

#: Rows of which features are made at a time, to measure errors.
CHUNK = 4096

#: The three methods of Table 1, in its order.
METHODS: dict[str, dict[str, Any]] = {
    "linear": {"link": "identity"},
    "logistic": {"link": "softmax"},
    "calibrated": {"calibration": "polynomial"},
}

Curve = list[dict[str, float]]


def generator(name: str, on_pixels: bool = False, scale: float | None = None) -> Any:
    """What makes the features of images, with the bandwidth that is given or was chosen."""
    fourier = RandomFourier(scale=SCALE.get(name, 1.0) if scale is None else scale)
    return fourier if on_pixels else Chain(PrincipalComponents(COMPONENTS, stress=STRESS), fourier)


def with_features(sets: Sets, count: int, seed: int = 0, maker: Any = None) -> Sets:
    """The same rows by so many generated features."""
    maker = generator(sets.name.split(",")[0]) if maker is None else maker
    maker.set_params(n_features=count, random_state=seed).fit(sets.X, sets.y)
    return sets._replace(X=maker.transform(sets.X), X_test=maker.transform(sets.X_test))


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out; ends by max_iter or max_time are on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        answer = fit()
        return time.perf_counter() - start, answer


def least_squares(sets: Sets, **options: Any) -> tuple[float, LeastSquaresClassifier]:
    """A timed fit."""
    return timed(lambda: LeastSquaresClassifier(**{"validation_fraction": None, **options}).fit(sets.X, sets.y))


def early(iterations: int) -> dict[str, Any]:
    """Options of Algorithm 1 with momentum that ends after so many iterations, which regularises."""
    return {"link": "softmax", "accelerated": True, "max_iter": iterations, "tol": 1e-9}


def errors_by_iteration(sets: Sets, alpha: float, iterations: tuple[int, ...]) -> dict[int, float]:
    """Test errors (%) of one fit of Algorithm 1 after each of these iterations."""
    found: dict[int, float] = {}

    def watch(snapshot: Any) -> None:
        if snapshot.iteration in iterations:
            scores = sets.X_test @ snapshot.weights.astype(sets.X.dtype) + snapshot.intercept
            found[int(snapshot.iteration)] = percent_wrong(scores.argmax(axis=1), sets.y_test)

    least_squares(sets, alpha=alpha, callbacks=(watch,), **early(max(iterations)))
    return found


def stagewise(sets: Sets, **options: Any) -> tuple[float, StagewiseClassifier]:
    """A timed fit of one model after the other, without limit of blocks unless it is given."""
    fixed = {"n_blocks": 100_000, "block_size": 2048, "alpha": 1e-7, "validation_fraction": None}
    return timed(lambda: StagewiseClassifier(**{**fixed, **options}).fit(sets.X, sets.y))


def curve_of(seconds: float, model: StagewiseClassifier, sets: Sets) -> Curve:
    """Blocks, features, seconds since the call of `fit` and test error (%) after every block of the first member."""
    errors = errors_by_block(model.model_, sets.X_test, sets.y_test)
    history = [row for row in model.history_ if row.get("member", 0) == 0]
    before = seconds - model.history_[-1]["seconds"]  # the generator's own learning
    sizes = np.cumsum([0, *(stage.size for stage in model.model_.members[0])]).tolist()
    return [
        {"blocks": t, "features": sizes[t], "seconds": before + history[t]["seconds"], "error": errors[t]}
        for t in range(1, len(errors))
    ]


def errors_by_block(model: Any, X: Any, y: np.ndarray, member: int = 0) -> list[float]:
    """Test error (%) before the first block and after every block; 100 where there are no predictions."""
    errors: list[float] = []
    running = scores_by_block(model, X, member)
    try:  # what came before an error stays
        errors.extend(percent_wrong(model.classes[scores.argmax(axis=1)], y) for scores in running)
    except DataError as error:  # cubes of running predictions can overflow on rows that were not trained on
        print(f"block {len(errors)}: {error}", flush=True)
    return errors + [100.0] * (1 + len(model.members[member]) - len(errors))


def error_of(model: Any, sets: Sets) -> float:
    """Test error (%); 100 where the model cannot predict."""
    try:
        return sets.error(model.predict(sets.X_test))
    except DataError as error:
        print(f"no predictions: {error}", flush=True)
        return 100.0


def scores_by_block(model: Any, X: Any, member: int = 0) -> Any:
    """Running scores before the first block and after every block; one array, changed in place."""
    maker, seen = maker_of(model.generator), through(model.generator, X)
    scores = np.tile(model.start, (X.shape[0], 1))
    yield scores
    for stage in model.members[member]:
        block = maker.remake(stage.number, stage.size, stage.state)
        for at in range(0, X.shape[0], CHUNK):
            part = slice(at, at + CHUNK)
            F = block.transform(seen[part]).astype(scores.dtype, copy=False)
            add_stage(scores[part], F, stage.weights, stage.intercept, model.update)
        yield scores


def at_time(curve: Curve, seconds: float, key: str = "error") -> float | None:
    """What was reached at a time; None before the first block."""
    return next((point[key] for point in reversed(curve) if point["seconds"] <= seconds), None)


def first_below(curve: Curve, error: float) -> dict[str, float] | None:
    """The first point with less than an error."""
    return next((point for point in curve if point["error"] < error), None)


def warm_up(plan: Plan) -> float:
    """Compile what the parts use, on random rows; seconds."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 70)).astype(np.float32), rng.integers(0, 10, 300)
    sets = Sets("warm-up", X, y, X, y)
    total = 0.0
    for options in METHODS.values():
        total += least_squares(sets, max_iter=3, **options)[0]
    for update in ("linear", "calibrated", "softmax"):
        seconds, model = stagewise(sets, update=update, block_size=32, n_blocks=2)
        curve_of(seconds, model, sets)
        total += seconds
    return total
