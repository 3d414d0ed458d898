"""From labelled rows to a stagewise model."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lineal import features
from lineal.core import rng
from lineal.core.threads import blas_limit, thread_count
from lineal.engine.local import LocalEngine
from lineal.errors import DataError, OptionError
from lineal.features.chain import Chain
from lineal.features.contracts import (
    HasParameters,
    KnowsWidth,
    Makes,
    NeedsResidual,
    Prepares,
    Seeded,
    TakesParameters,
)
from lineal.features.rows import design_of
from lineal.problem.checkpoint import Checkpoint, checkpoint_of
from lineal.problem.fingerprint import Fingerprint, of_rows
from lineal.problem.monitor import ENDED, Callback, checked_callbacks
from lineal.problem.progress import Steps
from lineal.problem.row_weights import row_weights
from lineal.problem.solution import NO_CERTIFICATE, Run, Snapshot
from lineal.problem.steps import LabelWeights
from lineal.problem.targets import Encoded, encode
from lineal.solvers.stagewise import stagewise
from lineal.solvers.stagewise.features import Stage, maker_of
from lineal.stagewise.model import StagewiseModel
from lineal.stagewise.options import StagewiseOptions, automatic
from lineal.system import memory


def fit_stagewise(
    X: Any,
    y: Any,
    options: StagewiseOptions,
    *,
    sample_weight: Any = None,
    class_names: list[Any] | None = None,
    start: StagewiseModel | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[StagewiseModel, Run]:
    """Train on X, a dense array of any numeric type or a CSR matrix, and labels y.

    `start` is a model to which stages are added, up to `n_blocks` in all; its generator goes on.
    Memory: that of `solvers/stagewise/stagewise.py`, and X in float32 where it is float64 and the precision is not.
    """
    options = options.checked()
    callbacks, checkpoint = checked_callbacks(callbacks), checkpoint_of(options)
    X = _rows(X, options.precision)
    encoded = encode(y, direct=False, class_names=class_names)
    weights = row_weights(sample_weight, options.class_weight, encoded, X.shape[0])
    seed = int(options.random_state or 0)
    if start is not None and not _goes_on(start, encoded, X, options):
        start = None
    limit = nullcontext() if options.n_jobs is None else blas_limit(thread_count(options.n_jobs))
    total = int(options.n_models) * int(options.n_blocks)
    with limit, Steps(options.verbose, "stages", total) as steps:
        generator = start.generator if start is not None else _generator(options, X, seed)
        data = _Data.of(X, encoded, weights, options)
        _check_memory(maker_of(generator), X.shape[0], options)
        model = start if start is not None else _empty(generator, data, encoded, options)
        if checkpoint is not None:
            checkpoint.match(_fingerprint(model, data, options))

        stages = 0

        def show(snapshot: Snapshot) -> None:
            nonlocal stages
            stages += snapshot.iteration > 0  # a member's first record comes before its first stage
            steps.done = stages
            steps.step(f"loss {snapshot.objective:.5g}")

        model, run = _members(model, data, options, (show, *callbacks), checkpoint)
    if checkpoint is not None and run.status in ENDED:
        checkpoint.remove()
    return model, run


@dataclass(frozen=True)
class _Data:
    """Rows with labels and weights; `held_out` has the weights of held-out rows, which are zero in the engine."""

    engine: LocalEngine
    held_out: np.ndarray | None
    is_independent: bool

    @staticmethod
    def of(X: Any, encoded: Encoded, weights: np.ndarray, options: StagewiseOptions) -> _Data:
        held = _held_out(options.validation_fraction, weights, int(options.random_state or 0))
        training, held_out = weights.copy(), None
        if len(held):
            held_out = np.zeros_like(weights)
            held_out[held] = weights[held] / weights[held].sum()
            training[held] = 0.0
        training /= training.sum()
        k, threads = encoded.n_columns, thread_count(options.n_jobs)
        # One block: chunks of features bound the memory.
        engine = LocalEngine(design_of(X), encoded.targets, training, k, None, threads, block_rows=X.shape[0])
        return _Data(engine, held_out, encoded.is_multilabel or k == 1)


def _members(
    model: StagewiseModel,
    data: _Data,
    options: StagewiseOptions,
    callbacks: tuple[Callback, ...],
    checkpoint: Checkpoint | None,
) -> tuple[StagewiseModel, Run]:
    """Fit the members one after the other; each is a phase of the checkpoint, which has those before as facts."""
    maker = maker_of(model.generator)
    status, message = "converged", ""
    free = _first_free(maker, [stage for member in model.members for stage in member], int(options.block_size))
    begun = [*model.members, *([] for _ in range(int(options.n_models) - len(model.members)))]
    done = _Done([], [], 0.0, free) if checkpoint is None else _Done.of(checkpoint, free)
    members, history, seconds, free = done
    for number, member in list(enumerate(begun))[len(members) :]:
        left = None if options.max_time is None else options.max_time - seconds
        if status != "converged" or (left is not None and left <= 0.0):
            members.append(member)
            continue
        missing = max(0, int(options.n_blocks) - len(member))
        if checkpoint is not None:
            checkpoint.enter(f"model {number}", _Done(members, history, seconds, free).facts())
        found = stagewise.solve(
            data.engine, model.generator, model.start, before=member, is_independent=data.is_independent,
            update=options.update, alpha=options.alpha, stage_size=int(options.block_size), n_stages=missing,
            first_stage=free, inner_iter=50 if options.inner_iter is None else int(options.inner_iter),
            held_out=data.held_out, patience=5 if options.patience is None else int(options.patience),
            feature_memory=int(options.block_memory), max_time=left, callbacks=callbacks, checkpoint=checkpoint,
        )  # fmt: skip
        free += missing
        members.append([*member, *found.stages])
        history += [{**row, "seconds": row["seconds"] + seconds, "member": number} for row in found.history]
        seconds = history[-1]["seconds"] if history else 0.0
        status, message = found.status, found.message
    kept = [member for member in members if member] or [[]]  # of an interrupted fit, those that have begun
    model = StagewiseModel(
        model.generator, kept, model.start, options.update, model.classes, model.n_features, model.is_multilabel,
        options=options.to_json(), certificate=NO_CERTIFICATE, status=status,
    )  # fmt: skip
    return model, Run(history, status, message)


class _Done(NamedTuple):
    """Members that are finished, their history and seconds, and the first number of features that is not used."""

    members: list[list[Stage]]
    history: list[dict[str, float]]
    seconds: float
    free: int

    @staticmethod
    def of(checkpoint: Checkpoint, free: int) -> _Done:
        """What a checkpoint says is done; nothing if there is none."""
        _, facts = checkpoint.found_phase or ("", None)
        if facts is None:
            return _Done([], [], 0.0, free)
        members = [[Stage(**parts) for parts in member] for member in facts["members"]]
        return _Done(members, facts["history"], facts["seconds"], facts["free"])

    def facts(self) -> dict[str, Any]:
        """Plain values and arrays."""
        members = [[stage.parts() for stage in member] for member in self.members]
        return {**self._asdict(), "members": members, "history": list(self.history)}


def _fingerprint(model: StagewiseModel, data: _Data, options: StagewiseOptions) -> Fingerprint:
    """Facts by which a fit is recognised. Another number of stages is not another fit, if there is one member."""
    names = (
        "update", "block_size", "alpha", "inner_iter", "validation_fraction", "patience", "n_models", "precision",
        "random_state",
    )  # fmt: skip
    return {
        "solver": "stagewise",
        "generator": _text_of(model.generator),
        **{name: getattr(options, name) for name in names},
        "n_blocks": None if options.n_models == 1 else int(options.n_blocks),
        "number of stages at the start": sum(map(len, model.members)),
        **of_rows(data.engine),
    }


def _text_of(generator: Any) -> str:
    """A generator with its parameters, as text; threads are no parameter of the features."""
    if isinstance(generator, (list, tuple)):
        return f"[{', '.join(map(_text_of, generator))}]"
    if isinstance(generator, np.ndarray):
        return hashlib.blake2b(np.ascontiguousarray(generator).tobytes(), digest_size=8).hexdigest()
    if generator is None or isinstance(generator, bool | int | float | str | np.generic):
        return str(generator)
    if isinstance(generator, Chain):
        return " + ".join(map(_text_of, generator.steps_))
    values = generator.get_params(deep=False) if isinstance(generator, HasParameters) else {}
    given = [f"{name}={_text_of(value)}" for name, value in values.items() if not name.endswith("n_jobs")]
    return f"{type(generator).__name__}({', '.join(given)})"


def _first_free(maker: Any, taken: list[Stage], size: int) -> int:
    """Number of the first batch of this size that no stage has used.

    Blocks of a generator whose features come to an end are slices of them: those of another size go on where the last
    one ended, or less than a batch before. Numbers of others are seeds.
    """
    needs_residual = isinstance(maker, NeedsResidual) and maker.needs_residual
    if not needs_residual and isinstance(maker, KnowsWidth) and maker.width_of(1 << 40, size) == 0:
        return max(((stage.number + 1) * stage.size for stage in taken), default=0) // size
    return max((stage.number for stage in taken), default=-1) + 1


def _rows(X: Any, precision: str) -> Any:
    if sparse.issparse(X):
        X = X.tocsr()
    elif not isinstance(X, np.ndarray) or X.ndim != 2:
        raise DataError("X must be a NumPy array of two dimensions or a SciPy sparse matrix")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X of shape {X.shape} has nothing to learn from")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, found {X.dtype}")
    if X.dtype.kind == "f" and X.dtype != precision and X.dtype.itemsize > 2:
        with np.errstate(over="ignore"):
            X = X.astype(precision)
    elif precision == "float64" and X.dtype != np.float64:
        X = X.astype(np.float64)
    return X


def _given(options: StagewiseOptions, X: Any) -> Any:
    """Generator of the options, or the default one for these rows, not prepared."""
    given = automatic(sparse.issparse(X), X.shape[1]) if options.generator is None else options.generator
    if isinstance(given, str):
        return features.parse(given)
    if isinstance(given, type) or not (isinstance(given, Prepares) and isinstance(given, Makes)):
        raise OptionError(f"generator={given!r} makes no features: it needs `prepare` and `make`")
    return given


def _generator(options: StagewiseOptions, X: Any, seed: int) -> Any:
    """Copy of the generator of the options, prepared with X."""
    from sklearn.base import clone

    given = _given(options, X)
    made: Any = clone(given) if isinstance(given, HasParameters) else copy.deepcopy(given)
    if options.n_jobs is not None and isinstance(made, TakesParameters):  # its own number of threads goes first
        open_ = [name for name, value in made.get_params().items() if name.endswith("n_jobs") and value is None]
        made.set_params(**dict.fromkeys(open_, options.n_jobs))
    made.prepare(X, seed)
    return made


def _check_memory(maker: Any, n: int, options: StagewiseOptions) -> None:
    """Refuse stages whose matrices do not fit into the available memory."""
    size = int(options.block_size)
    p = maker.width_of(0, size) if isinstance(maker, KnowsWidth) else size
    needed = 24 * p * p + min(n * p * np.dtype(options.precision).itemsize, int(options.block_memory))
    available = memory.available_memory() if needed >= memory.WORTH_ASKING else None
    if available is not None and needed > available:
        raise DataError(
            f"stages of {p} features need {memory.size(needed)} of memory, but {memory.size(available)} are "
            "available: lower block_size or block_memory"
        )


def _empty(generator: Any, data: _Data, encoded: Encoded, options: StagewiseOptions) -> StagewiseModel:
    """Model before the first stage, which predicts the means of the labels, or their logarithms."""
    k = encoded.n_columns
    means = np.clip(data.engine.sum(LabelWeights(k))[0], 1e-9, 1.0 - 1e-9)
    if options.update == "softmax":
        means = np.log(means) - (np.log1p(-means) if data.is_independent else np.log(means).mean())
    return StagewiseModel(
        generator, [[] for _ in range(int(options.n_models))], means.astype(options.precision), options.update,
        encoded.classes, data.engine.shape[1], encoded.is_multilabel,
    )  # fmt: skip


def _goes_on(start: StagewiseModel, encoded: Encoded, X: Any, options: StagewiseOptions) -> bool:
    """Whether stages can be added to a model, because these options would have started in the same way."""
    seed = int(options.random_state or 0)
    return (
        np.array_equal(start.classes, encoded.classes)
        and start.is_multilabel == encoded.is_multilabel
        and start.n_features == X.shape[1]
        and start.update == options.update
        and len(start.members) <= options.n_models  # an interrupted fit has fewer
        and start.dtype == options.precision
        and (not isinstance(start.generator, Seeded) or start.generator.seed_ == seed)
        and _are_alike(_given(options, X), start.generator)
    )


def _are_alike(one: Any, other: Any) -> bool:
    """Whether parameters are equal, or generators have equal parameters except the number of threads."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):  # files have lists only
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if isinstance(one, (Prepares, HasParameters)):
        if type(one) is not type(other):
            return False
        mine, others = (step.get_params(deep=False) if isinstance(step, HasParameters) else {} for step in (one, other))
        return all(_are_alike(value, others[name]) for name, value in mine.items() if name != "n_jobs")
    return one is other or bool(np.array_equal(one, other))


def _held_out(fraction: float | None, weights: np.ndarray, seed: int) -> np.ndarray:
    """Indices of the held-out rows, ascending: a fraction of the rows with a weight above zero."""
    if fraction is None:
        return np.zeros(0, np.int64)
    order = np.flatnonzero(weights > 0.0)
    rng.shuffle(rng.generator(seed, -7), order)
    count = round(fraction * len(order))
    if not 0 < count < len(order):
        raise DataError(f"validation_fraction={fraction:g} of {len(order)} rows leaves none to train or to measure on")
    return np.sort(order[:count])
