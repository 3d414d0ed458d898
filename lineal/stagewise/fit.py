"""From labelled rows to a stagewise model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lineal.data.dataset import Dataset
from lineal.engine.source import Source
from lineal.linear.fit import labels_of
from lineal.problem.checkpoint import Checkpoint, checkpoint_of
from lineal.problem.fingerprint import Fingerprint, of_rows
from lineal.problem.monitor import ENDED, Callback, checked_callbacks
from lineal.problem.progress import Steps, shown
from lineal.problem.solution import NO_CERTIFICATE, Run, Snapshot
from lineal.problem.steps import LabelWeights
from lineal.solvers.stagewise import stagewise
from lineal.solvers.stagewise.features import Stage, maker_of, tell_of
from lineal.stagewise import generator as generators
from lineal.stagewise.model import StagewiseModel
from lineal.stagewise.options import StagewiseOptions
from lineal.stagewise.plan import planned, ridges, scale_of, scaled
from lineal.stagewise.training_rows import TrainingRows
from lineal.stagewise.warm import WarmUp

#: Stages without a lower error of held-out rows after which a fit ends, unless told.
PATIENCE = 3


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
    rows = TrainingRows.of_arrays(X, y, options, sample_weight, class_names)
    return _fit(rows, options, start, callbacks, checkpoint)


def fit_stagewise_rows(
    rows: Source | Dataset,
    options: StagewiseOptions,
    *,
    start: StagewiseModel | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[StagewiseModel, Run]:
    """`fit_stagewise` to rows of files or of a cluster (see `lineal.linear.rows`)."""
    options = options.checked()
    if isinstance(rows, Dataset):
        return fit_stagewise(
            rows.X, labels_of(rows), options, sample_weight=rows.weights, class_names=rows.class_names, start=start,
            callbacks=callbacks,
        )  # fmt: skip
    callbacks, checkpoint = checked_callbacks(callbacks), checkpoint_of(options)
    return _fit(TrainingRows.of_source(rows, options), options, start, callbacks, checkpoint)


def _fit(
    rows: TrainingRows,
    options: StagewiseOptions,
    start: StagewiseModel | None,
    callbacks: tuple[Callback, ...],
    checkpoint: Checkpoint | None,
) -> tuple[StagewiseModel, Run]:
    engine = rows.engine
    wanted = generators.given(options, rows.is_sparse, rows.n_features)
    if start is not None and options.generator is None:
        wanted = scaled(wanted, scale_of(start.generator))
    if start is not None and not _goes_on(start, rows, wanted, options):
        start = None
    with rows.blas_threads(options.n_jobs), Steps(shown(options.verbose), "stages", 1) as steps:
        engine.notify(steps.note)
        try:
            steps.note("choosing the size of the stages")
            options = planned(rows, options, start, _held_out_loss)
            wanted = generators.given(options, rows.is_sparse, rows.n_features)
            steps.expect(int(options.n_models) * options.count)
            model = start if start is not None else _empty(rows, wanted, options)
            rows.check_memory(maker_of(model.generator), options)
            if checkpoint is not None:
                checkpoint.match(_fingerprint(model, rows, options))
            engine.warm_up(_warm_up(model, rows, options))
            stages = 0

            def show(snapshot: Snapshot) -> None:
                nonlocal stages
                stages += snapshot.iteration > 0  # a member's first record comes before its first stage
                steps.done = stages
                steps.step("; ".join(filter(None, [f"loss {snapshot.objective:.5g}", engine.remark()])))

            def measured(error: float) -> None:
                steps.note(f"error of held-out rows {error:.4g}")

            model, run = _members(model, rows, options, (show, *callbacks), checkpoint, measured)
        finally:
            engine.notify(None)
    if checkpoint is not None and run.status in ENDED:
        checkpoint.remove()
    return model, run


def _held_out_loss(X: Any, y: Any, weights: np.ndarray, options: StagewiseOptions) -> float:
    """The least loss of held-out rows in a fit, without those of the model before its first stage."""
    run = fit_stagewise(X, y, options, sample_weight=weights)[1]
    return min((row["validation_loss"] for row in run.history[1:]), default=math.inf)


def _members(
    model: StagewiseModel,
    rows: TrainingRows,
    options: StagewiseOptions,
    callbacks: tuple[Callback, ...],
    checkpoint: Checkpoint | None,
    measured: Callable[[float], None],
) -> tuple[StagewiseModel, Run]:
    """Fit the members one after the other; each is a phase of the checkpoint, which has those before as facts."""
    maker = maker_of(model.generator)
    status, message, is_answered = "converged", "", True
    taken = [stage for member in model.members for stage in member]
    free = generators.first_free(maker, taken, options.size)
    begun = [*model.members, *([] for _ in range(int(options.n_models) - len(model.members)))]
    done = _Done([], [], 0.0, free) if checkpoint is None else _Done.of(checkpoint, free)
    members, history, seconds, free = done
    alpha = ridges(options, rows)[0]
    tell_of(maker, [stage for member in members for stage in member])
    for number, member in list(enumerate(begun))[len(members) :]:
        left = None if options.max_time is None else options.max_time - seconds
        if status != "converged" or (left is not None and left <= 0.0):
            members.append(member)
            continue
        missing = max(0, options.count - len(member))
        if checkpoint is not None:
            checkpoint.enter(f"model {number}", _Done(members, history, seconds, free).facts())
        found = stagewise.solve(
            rows.engine, model.generator, model.start, before=member, is_independent=rows.is_independent,
            update=options.update, alpha=ridges(options, rows), stage_size=options.size, n_stages=missing,
            first_stage=free, inner_iter=50 if options.inner_iter is None else int(options.inner_iter),
            held_out=rows.held_out, patience=PATIENCE if options.patience is None else int(options.patience),
            feature_memory=int(options.block_memory), max_time=left, callbacks=callbacks, checkpoint=checkpoint,
            measured=measured,
        )  # fmt: skip
        free += missing
        alpha = found.alpha if found.stages else alpha
        members.append([*member, *found.stages])
        history += [{**row, "seconds": row["seconds"] + seconds, "member": number} for row in found.history]
        seconds = history[-1]["seconds"] if history else 0.0
        status, message, is_answered = found.status, found.message, found.is_answered
    kept = [member for member in members if member] or [[]]  # of an interrupted fit, those that have begun
    model = StagewiseModel(
        model.generator, kept, model.start, options.update, model.classes, model.n_features, model.is_multilabel,
        options=replace(options, alpha=alpha).to_json(), certificate=NO_CERTIFICATE, status=status,
    )  # fmt: skip
    return model, Run(history, status, message, is_answered=is_answered)


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


def _fingerprint(model: StagewiseModel, rows: TrainingRows, options: StagewiseOptions) -> Fingerprint:
    """Facts by which a fit is recognised. Another number of stages is not another fit, if there is one member."""
    names = (
        "update", "block_size", "alpha", "inner_iter", "validation_fraction", "patience", "n_models", "precision",
        "random_state",
    )  # fmt: skip
    return {
        "solver": "stagewise",
        "generator": generators.text_of(model.generator),
        "rows that the generator was prepared with": rows.n_sampled,
        **{name: getattr(options, name) for name in names},
        "n_blocks": None if options.n_models == 1 else options.count,
        "number of stages at the start": sum(map(len, model.members)),
        **of_rows(rows.engine),
    }


def _empty(rows: TrainingRows, wanted: Any, options: StagewiseOptions) -> StagewiseModel:
    """Model before the first stage, which predicts the means of the labels, or their logarithms."""
    generator = rows.prepare(generators.copied(wanted, options.n_jobs), options)
    encoded, k = rows.encoded, rows.encoded.n_columns
    means = np.clip(rows.engine.sum(LabelWeights(k))[0], 1e-9, 1.0 - 1e-9)
    if options.update == "softmax":
        means = np.log(means) - (np.log1p(-means) if rows.is_independent else np.log(means).mean())
    return StagewiseModel(
        generator, [[] for _ in range(int(options.n_models))], means.astype(options.precision), options.update,
        encoded.classes, rows.n_features, encoded.is_multilabel,
    )  # fmt: skip


def _goes_on(start: StagewiseModel, rows: TrainingRows, wanted: Any, options: StagewiseOptions) -> bool:
    """Whether stages can be added to a model, because these options would have started in the same way."""
    return (
        np.array_equal(start.classes, rows.encoded.classes)
        and start.is_multilabel == rows.encoded.is_multilabel
        and start.n_features == rows.n_features
        and start.update == options.update
        and len(start.members) <= options.n_models  # an interrupted fit has fewer
        and start.dtype == options.precision
        and generators.is_that_of(start.generator, wanted, int(options.random_state or 0))
    )


def _warm_up(model: StagewiseModel, rows: TrainingRows, options: StagewiseOptions) -> WarmUp:
    return WarmUp(
        model.generator, model.start, options.update, options.size, rows.is_independent,
        rows.encoded.n_columns, rows.encoded.is_multilabel, rows.n_features, rows.engine.dtype, rows.engine.is_dense,
    )  # fmt: skip
