"""Small models of every kind that a file can hold, and files of them with forged contents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy import sparse

from lineal import (
    LeastSquaresClassifier,
    LinearClassifier,
    OnlineClassifier,
    OnlineRegressor,
    StagewiseClassifier,
    features,
)
from lineal.data.schema import Schema
from lineal.system.tensor_file import checksum

N, D = 60, 12


def rows(n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, labels of three classes, and label sets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)).astype(np.float32)
    return X, np.arange(n) % 3, (X[:, :3] > 0.0).astype(np.int64)


def _linear(X: Any, y: Any, Y: Any) -> Any:
    return LinearClassifier("logistic", alpha=1e-2).fit(X, y).model_


def _row_sparse(X: Any, y: Any, Y: Any) -> Any:
    wide = np.hstack([X, np.zeros((len(X), 200), np.float32)])
    model = LinearClassifier(penalty="l1", alpha=5e-2, probability=True).fit(wide, y == 0).model_
    return replace(model, feature_names=[f"f{j}" for j in range(wide.shape[1])])


def _thresholds(X: Any, Y: Any) -> Any:
    return LinearClassifier(alpha=1e-2, threshold="per_label").fit(X, Y).model_


def _schema(X: Any, y: Any, Y: Any) -> Any:
    columns = [{"name": f"c{j}", "kind": "number", "fill": 0.0} for j in range(D - 2)]
    columns.append({"name": "k", "kind": "category", "values": ["a", "b"]})
    settings = {"columns": columns, "label": "y", "missing": "error", "categorical": "onehot", "dtype": "float32"}
    return replace(_linear(X, y, Y), schema=Schema("table", D, settings))


def _stagewise(generator: str, **options: Any) -> Callable[..., Any]:
    def make(X: Any, y: Any, Y: Any) -> Any:
        given = {"block_size": 16, "n_blocks": 2, "n_jobs": 1, **options}
        X = np.hstack([X, X, X, X])[:, :48] if "patches" in generator else X
        return StagewiseClassifier(features.parse(generator), **given).fit(X, y).model_

    return make


#: By name, what makes a model of (X, y, label sets).
MAKERS: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "row-sparse, calibrated scores, names": _row_sparse,
    "one label with thresholds": lambda X, y, Y: LinearClassifier(alpha=1e-2, threshold="balanced").fit(X, y).model_,
    "label sets with thresholds": lambda X, y, Y: _thresholds(X, Y),
    "with a schema": _schema,
    "calibrated": lambda X, y, Y: LeastSquaresClassifier(calibration="polynomial", max_iter=3).fit(X, y).model_,
    "stagewise fourier": _stagewise("fourier"),
    "stagewise hadamard": _stagewise("fourier:variant=hadamard", update="softmax"),
    "stagewise pca and fourier": _stagewise("pca:n_components=5+fourier", n_models=2),
    "stagewise polynomial": _stagewise("polynomial", update="calibrated"),
    "stagewise subset": _stagewise("subset", block_size=5),
    "stagewise frequency": _stagewise("frequency", block_size=5),
    "stagewise greedy": _stagewise("greedy", block_size=5),
    "stagewise patches": _stagewise("patches:patch=2,n_filters=4,image_shape=4x4x3"),
    "stagewise random patches": _stagewise("patches:patch=2,filters=random,image_shape=4x4x3"),
    "online": lambda X, y, Y: OnlineClassifier(bits=10).fit(X, y).model_,
    "online, two classes, hinge": lambda X, y, Y: OnlineClassifier("hinge", bits=10).fit(X, y > 0).model_,
    "online label sets": lambda X, y, Y: OnlineClassifier(bits=10).fit(X, Y).model_,
    "online regression": lambda X, y, Y: OnlineRegressor(bits=10).fit(X, X[:, 0]).model_,
    "online adaptive": lambda X, y, Y: OnlineClassifier(bits=10, expansion="adaptive", epochs=3).fit(X, y).model_,
    "online picky": lambda X, y, Y: (
        OnlineClassifier(bits=10, expansion="adaptive", picky=True, heuristic="ssm", epochs=3).fit(X, y > 0).model_
    ),
    "online cubic": lambda X, y, Y: OnlineClassifier(bits=10, expansion="cubic").fit(X, y).model_,
    "online namespaces": lambda X, y, Y: (
        OnlineClassifier(
            bits=10, expansion="quadratic", interactions="a*b", namespaces={"a": slice(0, 6), "b": slice(6, 12)}
        )
        .fit(X, y)
        .model_
    ),
}


def parts_of(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Description and tensors of a file."""
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["lineal"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write(path: Path, description: Any, tensors: dict[str, np.ndarray]) -> None:
    """A file with a checksum that fits."""
    text = description if isinstance(description, str) else json.dumps(description, ensure_ascii=False, sort_keys=True)
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    save_file(tensors, path, {"lineal": text, "blake2b": checksum(text, tensors)})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside of JSON; of long lists the first and the last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for at in range(len(value)) if len(value) <= 4 else (0, 1, len(value) - 1):
            yield from places(value[at], (*path, at))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at a path; without the entry where the new value is `GONE`."""
    if not path:
        return new
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is GONE:
        del copied[path[0]]
    else:
        copied[path[0]] = changed(copied[path[0]], path[1:], new)
    return copied


GONE = object()


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


#: What is put in the place of a value of a description.
FORGERIES: list[Any] = [
    GONE, None, True, False, 0, 1, -1, 2, 3, 7, 30, 2**31 - 1, 2**31, 2**32, -(2**31), 2**47, 2**62, 2**63, 2**64,
    -(2**63) - 1, 10**30, 0.0, -1.5, 0.5, 1e-300, 1e300, float("nan"), float("inf"), "", "x", "nan", "logistic",
    "adaptive", "tune", "\x00", "ä" * 50, [], {}, [0], [1, 2, 3], ["a"], [None], [[]], {"a": 1}, [-1], [2**40], [1.5],
    deep(60), "$tensor", {"$tensor": "weights"},
]  # fmt: skip


def forged_tensors(array: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Arrays that could stand in the place of one."""
    yield "gone", GONE
    yield "empty", array[:0]
    yield "shorter", array[:-1]
    yield "longer", np.concatenate([array, array[:1]]) if array.ndim else array
    yield "flat", array.reshape(-1)
    yield "deeper", array[None]
    yield "turned", array.T.copy()
    for dtype in ("f2", "f4", "f8", "i1", "u1", "i4", "i8", "u8", "?"):
        if array.dtype != np.dtype(dtype):
            with np.errstate(all="ignore"):
                yield dtype, array.astype(dtype)
    if array.size:
        extremes: tuple[Any, ...] = (np.nan, np.inf, -np.inf, 3e38, -1.0, 0.0) if array.dtype.kind == "f" else ()
        if array.dtype.kind in "iu":
            limits = np.iinfo(array.dtype)
            extremes = (limits.min, limits.max, limits.max - 1, -1 if limits.min < 0 else 0, 0, 1)
        for extreme in extremes:
            one = array.copy()
            one.flat[int(rng.integers(array.size))] = extreme
            yield f"one {extreme}", one
            yield f"all {extreme}", np.full_like(array, extreme)
        yield "backwards", array[::-1].copy()


def questions(model: Any, X: np.ndarray) -> list[Any]:
    """Matrices to ask a model about."""
    d = model.n_features
    if not isinstance(d, int) or d > 4096 or d < 1:
        wide = sparse.csr_array((1, max(0, min(int(d), 2**31 - 1))), dtype=np.float32)
        return [wide]
    wide = np.resize(X[:3], (3, d)).astype(np.float32)
    return [wide, sparse.csr_array(wide)]
