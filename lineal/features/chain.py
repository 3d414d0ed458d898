"""`Chain`: steps that are applied before a generator, such as principal components before Fourier features.

All steps but the last are applied to each chunk of rows; the last one makes the batches. A step is a generator (its
batch 0 of `n_features` features) or anything with scikit-learn's `fit` and `transform`, which model files however
cannot hold.

To prepare a step, rows go through the steps before it: all rows if that takes at most 512 MB, else a random sample of
that size.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lineal.core import rng
from lineal.core.scikit import clone
from lineal.errors import DataError, OptionError
from lineal.features import rows
from lineal.features.base import Generator, described, from_description, transform_rows
from lineal.features.contracts import (
    FeatureBatch,
    HasParameters,
    KeepsState,
    LearnsFromSums,
    Makes,
    NeedsResidual,
    Prepares,
    Remakes,
    Transformer,
)

#: Numbers that may be made of the rows to prepare a later step.
PREPARED = 1 << 27


class Chain(Generator):
    """Steps applied one after the other, e.g. ``Chain(PrincipalComponents(50), RandomFourier())``.

    Parameters
    ----------
    steps : generators or transformers; the last must be a generator.
    n_features : features as a scikit-learn transformer.
    random_state : seed (None: 0).

    Attributes
    ----------
    steps_ : the prepared steps; the `steps` themselves do not change.

    In `get_params`, ``grid search`` and the like, parameters of the steps are called ``0__stress``, ``1__scale``, ….
    """

    name: ClassVar[str] = "chain"

    n_features: int

    steps_: list[Any]
    firsts_: list[Any]

    def __init__(self, *steps: Any, n_features: int = 1024, random_state: int | None = None) -> None:
        self.steps = steps
        self.n_features = n_features
        self.random_state = random_state

    @property
    def needs_residual(self) -> bool:  # type: ignore[override]
        """Whether the last step needs the residual of a fit."""
        return bool(self.steps) and isinstance(self.steps[-1], NeedsResidual) and self.steps[-1].needs_residual

    def _check_params(self) -> None:
        if not self.steps:
            raise OptionError("a chain needs at least one step")
        for step in self.steps[:-1]:
            if not isinstance(step, (Prepares, Transformer)):
                raise OptionError(
                    f"{type(step).__name__} cannot be a step of a chain: it has neither prepare nor transform"
                )
        if not (isinstance(self.steps[-1], Prepares) and isinstance(self.steps[-1], Makes)):
            raise OptionError(f"the last step of a chain makes features; {type(self.steps[-1]).__name__} does not")

    def _learn(self, X: Any) -> None:
        self._learn_from(None, X)

    def _learn_from(self, sums: Any, sample: Any) -> None:
        """Prepare the steps one after the other; `sums` are sums over all rows, None where the sample has them all."""
        self.steps_, self.firsts_, X = [], [], sample
        for position, given in enumerate(self.steps):
            # Steps of a kind draw different numbers; a chain of one is the same as its step.
            step, seed = _unfitted(given), self.seed_ if position == 0 else _seed_of_step(self.seed_, position)
            if sums is not None and isinstance(step, LearnsFromSums):
                step.prepare_from(sums, X, seed)
            elif isinstance(step, Prepares):
                step.prepare(X, seed)
            else:
                step.fit(X)
            self.steps_.append(step)
            if position < len(self.steps) - 1:
                first = _first_batch(step)
                self.firsts_.append(first)
                sums = None if sums is None else sums.after(_Sized(first, _width(first, X)))
                X = self._sent(first, X, position)

    def _sent(self, batch: Any, X: Any, position: int) -> np.ndarray:
        """Rows as the next step gets them, or a sample of them."""
        width = _width(batch, X)
        kept = rows.sample(X.shape[0], max(1, PREPARED // max(1, width)), self.seed_, -2 - position)
        return transform_rows(_Sized(batch, width), X if len(kept) == X.shape[0] else X[kept], self.name)

    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        if residual is not None:
            X, R = residual
            return ChainBatch(self.firsts_, self.last.make(number, size, (self.before(X), R)))
        return ChainBatch(self.firsts_, self.last.make(number, size))

    def width_of(self, number: int, size: int) -> int:
        """Number of features of a batch of the last step, without making it."""
        return self.last.width_of(number, size)

    @property
    def last(self) -> Any:
        """The prepared last step. ``chain.last.make(…)`` over `before` rows are the chain's own features."""
        return self.steps_[-1]

    def before(self, X: Any) -> Any:
        """Rows as the last step gets them, computed in chunks. Keep them if they are small and batches are many."""
        for batch in self.firsts_:
            X = transform_rows(_Sized(batch, _width(batch, X)), X, self.name)
        return X

    def remake(self, number: int, size: int, state: dict[str, Any]) -> FeatureBatch:
        """Batch that `make` returned, recreated from its `state()`."""
        last = self.steps_[-1]
        batch = last.remake(number, size, state) if isinstance(last, Remakes) else last.make(number, size)
        return ChainBatch(self.firsts_, batch)

    def with_bandwidth(self, bandwidth: float) -> Chain:
        """A prepared copy whose last step has another bandwidth."""
        other = copy.copy(self)
        last = self.steps_[-1].with_bandwidth(bandwidth)
        other.steps_ = [*self.steps_[:-1], last]
        other.steps = (*self.steps[:-1], _unfitted(last))
        return other

    @property
    def bandwidth_(self) -> float:
        """Bandwidth of the last step, if it has one."""
        return self.steps_[-1].bandwidth_

    def state(self) -> dict[str, Any]:
        """State: the seed, the number of columns, and the name, parameters and state of each step."""
        return {**super().state(), "steps_": [described(step) for step in self.steps_]}

    @classmethod
    def restored(cls, params: dict[str, Any], state: dict[str, Any]) -> Chain:
        """Chain with this state, which contains the steps; the parameters need not contain them."""
        if set(state) != {"seed_", "n_columns_", "steps_"} or not isinstance(state["steps_"], list):
            raise ValueError(
                f"chain features should have seed_, n_columns_ and a list of steps_, found {sorted(state)}"
            )
        unknown = set(params) - {"steps", "n_features", "random_state"}
        if unknown:
            raise ValueError(f"chain features have no parameters {sorted(unknown)}")
        steps = [from_description(step) for step in state["steps_"]]
        chain = cls(*map(_unfitted, steps), **{name: params[name] for name in params if name != "steps"})
        chain.seed_, chain.n_columns_ = state["seed_"], state["n_columns_"]
        chain.need_int("seed_", low=-(2**63), high=2**64)
        chain.need_int("n_columns_", low=1)
        chain._check_params()
        chain._join(steps)
        return chain

    def _join(self, steps: list[Generator]) -> None:
        """Join prepared steps; raises an error if they do not fit each other."""
        self.steps_, self.firsts_, width = steps, [], self.n_columns_
        for position, step in enumerate(steps):
            if step.n_columns_ != width:
                raise ValueError(f"step {position} of a chain takes {step.n_columns_} columns, but gets {width}")
            if position < len(steps) - 1:
                later = _Later(step) if isinstance(step, Generator) else _first_batch(step)
                self.firsts_.append(later)
                width = later.width

    # scikit-learn reads parameters off a signature, which must not have *steps.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The steps, n_features and random_state, and with `deep` the parameters of the steps."""
        params = {"steps": self.steps, "n_features": self.n_features, "random_state": self.random_state}
        if deep:
            for position, step in enumerate(self.steps):
                if isinstance(step, HasParameters):
                    params |= {f"{position}__{name}": value for name, value in step.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Chain:
        """Set parameters by the names of `get_params`."""
        known = self.get_params()
        for name, value in params.items():
            position, nested, inner = name.partition("__")
            if name not in known and not (nested and position.isdecimal() and int(position) < len(self.steps)):
                raise ValueError(f"a chain has no parameter {name!r}: known are {sorted(known)}")
            if nested:
                self.steps[int(position)].set_params(**{inner: value})
            else:
                setattr(self, name, tuple(value) if name == "steps" else value)
        return self

    def __sklearn_clone__(self) -> Chain:
        return Chain(*map(_unfitted, self.steps), n_features=self.n_features, random_state=self.random_state)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Chain({', '.join(map(repr, self.steps))})"


class ChainBatch:
    """Batch of the last step for rows that have passed through the other steps."""

    def __init__(self, firsts: list[Any], batch: Any) -> None:
        self.firsts, self.batch, self.width = firsts, batch, batch.width

    def transform(self, X: Any) -> np.ndarray:
        """Features of the rows, (m, width)."""
        for first in self.firsts:
            X = first.transform(X)
        return self.batch.transform(X)

    def state(self) -> dict[str, Any]:
        """State of the last step's batch."""
        return self.batch.state() if isinstance(self.batch, KeepsState) else {}


class _Sized:
    """A batch or transformer with a width."""

    def __init__(self, batch: Any, width: int) -> None:
        self.batch, self.width = batch, width

    def transform(self, X: Any) -> np.ndarray:
        return self.batch.transform(X)


class _Later:
    """Batch 0 of a prepared step, made when it is first needed, so that loading a file takes no memory for it."""

    def __init__(self, step: Generator) -> None:
        self.step, self.width = step, step.width_of(0, step._size())

    @cached_property
    def batch(self) -> Any:
        """Batch of the step."""
        return _first_batch(self.step)

    def transform(self, X: Any) -> np.ndarray:
        return self.batch.transform(X)


def _width(batch: Any, X: Any) -> int:
    return int(batch.width if isinstance(batch, FeatureBatch) else batch.transform(X[:1]).shape[1])


def _unfitted(step: Any) -> Any:
    return clone(step) if isinstance(step, HasParameters) else copy.deepcopy(step)


def _seed_of_step(seed: int, position: int) -> int:
    return int(rng.next_u64(rng.generator(seed, -1000 - position)))


def _first_batch(step: Any) -> Any:
    if not isinstance(step, Makes):
        return step
    batch = step.make(0, _size_of(step))
    if batch.width == 0:
        raise DataError(f"a chain's {type(step).__name__} makes no features from these rows")
    return batch


def _size_of(step: Any) -> int:
    """Number of features of a step that is not the last one."""
    return step._size() if isinstance(step, Generator) else step.n_features
