"""The generator of a fit: which one the options mean, and whether it is that of an earlier fit."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import numpy as np

from lineal import features
from lineal.errors import OptionError
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
from lineal.solvers.stagewise.features import Stage
from lineal.stagewise.options import StagewiseOptions, automatic


def given(options: StagewiseOptions, is_sparse: bool, columns: int) -> Any:
    """Generator of the options, or the default one for rows of this kind, not prepared."""
    chosen = automatic(is_sparse, columns) if options.generator is None else options.generator
    if isinstance(chosen, str):
        return features.parse(chosen)
    if isinstance(chosen, type) or not (isinstance(chosen, Prepares) and isinstance(chosen, Makes)):
        raise OptionError(f"generator={chosen!r} makes no features: it needs `prepare` and `make`")
    return chosen


def copied(generator: Any, n_jobs: int | None) -> Any:
    """Copy of a generator, not prepared, with this number of threads where it has none of its own."""
    from sklearn.base import clone

    made: Any = clone(generator) if isinstance(generator, HasParameters) else copy.deepcopy(generator)
    if n_jobs is not None and isinstance(made, TakesParameters):
        open_ = [name for name, value in made.get_params().items() if name.endswith("n_jobs") and value is None]
        made.set_params(**dict.fromkeys(open_, n_jobs))
    return made


def text_of(generator: Any) -> str:
    """A generator with its parameters, as text; threads are no parameter of the features."""
    if isinstance(generator, (list, tuple)):
        return f"[{', '.join(map(text_of, generator))}]"
    if isinstance(generator, np.ndarray):
        return hashlib.blake2b(np.ascontiguousarray(generator).tobytes(), digest_size=8).hexdigest()
    if generator is None or isinstance(generator, bool | int | float | str | np.generic):
        return str(generator)
    if isinstance(generator, Chain):
        return " + ".join(map(text_of, generator.steps_))
    values = generator.get_params(deep=False) if isinstance(generator, HasParameters) else {}
    shown = [f"{name}={text_of(value)}" for name, value in values.items() if not name.endswith("n_jobs")]
    return f"{type(generator).__name__}({', '.join(shown)})"


def first_free(maker: Any, taken: list[Stage], size: int) -> int:
    """Number of the first batch of `size` features that no stage has.

    Blocks of a generator whose features come to an end are slices of them: those of another size go on where the last
    one ended, or less than a batch before. Numbers of others are seeds.
    """
    needs_residual = isinstance(maker, NeedsResidual) and maker.needs_residual
    if not needs_residual and isinstance(maker, KnowsWidth) and maker.width_of(1 << 40, size) == 0:
        return max(((stage.number + 1) * stage.size for stage in taken), default=0) // size
    return max((stage.number for stage in taken), default=-1) + 1


def is_that_of(prepared: Any, wanted: Any, seed: int) -> bool:
    """Whether a prepared generator has the parameters of another one, and this seed."""
    return (not isinstance(prepared, Seeded) or prepared.seed_ == seed) and _are_alike(wanted, prepared)


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
