"""`Generator`: base of all generators of features, and their conversion to and from model files.

    generator.prepare(X, seed)            learn what all batches need: a bandwidth, principal components, filters
    batch = generator.make(number, size)  batch 0, 1, 2, … of `size` features, a function of seed, number and size
    batch.transform(rows)                 those features of some rows, (m, batch.width)

A batch narrower than `size` is the last one with features; a width of 0 means that there are no more. A generator of
your own needs only these methods (`contracts.py`). With `width_of(number, size)`, the width of a batch that was not
made yet, model files are checked before they are used. `Generator` adds the rest: its subclasses are scikit-learn
transformers of `n_features` features (batch 0), and `state` and `restored` convert them to model files and back.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy import sparse

from lineal.core import threads as pool
from lineal.core.inputs import checked_labels, checked_numbers
from lineal.core.scikit import (
    BaseEstimator,
    TransformerMixin,
    check_array,
    check_consistent_length,
    check_is_fitted,
    type_of_target,
)
from lineal.errors import DataError, OptionError, unknown_value
from lineal.features import rows
from lineal.features.contracts import FeatureBatch, Named, Restorable
from lineal.problem.labels import check_present, label_sets
from lineal.problem.validation import validated
from lineal.system import memory

G = TypeVar("G", bound="Generator")


class Generator(TransformerMixin, BaseEstimator, abc.ABC):
    """Base of the generators. `__init__` sets the parameters; attributes that end with an underscore are learned."""

    name: ClassVar[str]
    needs_residual: ClassVar[bool] = False

    #: Names of the attributes that `prepare` sets, besides those of all generators.
    learnt: ClassVar[tuple[str, ...]] = ()

    #: Defaults of the parameters that only some generators have.
    n_features: Any = None
    n_jobs: int | None = None
    random_state: int | None = None

    seed_: int
    n_columns_: int

    def prepare(self: G, X: Any, seed: int = 0) -> G:
        """Learn from the rows what all batches need. `seed` determines all random numbers, now and later."""
        X = self._begin(X, seed)
        self._learn(X)
        return self

    def prepare_from(self: G, sums: Any, sample: Any, seed: int = 0) -> G:
        """Learn from sums over all rows (`contracts.RowSums`) what they tell, and the rest from a sample of them."""
        sample = self._begin(sample, seed)
        self._learn_from(sums, sample)
        return self

    def _begin(self, X: Any, seed: int) -> Any:
        """The rows in a form in which ranges can be taken, after all checks before something is learned from them."""
        self._check_params()
        X = rows.sliceable(checked_numbers(X, "X"))
        if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
            raise DataError(f"{self.name} features need at least one row and one column, found X of shape {X.shape}")
        self.seed_, self.n_columns_ = operator.index(seed), X.shape[1]
        self._check_room(self._bytes_to_learn())
        return X

    def make(self, number: int, size: int, residual: Any = None) -> FeatureBatch:
        """Batch `number` of at most `size` features; `residual` is (X, R) for generators that need it."""
        check_is_fitted(self, "seed_", msg="call prepare of %(name)s before it makes features")
        if number < 0 or size < 1:
            raise OptionError(f"batch {number} of {size} features does not exist: numbers start at 0, sizes at 1")
        self._check_room(self._bytes_to_make(int(size)))
        return self._make(int(number), int(size), residual)

    def width_of(self, number: int, size: int) -> int:
        """Number of features of batch `number`, without making it."""
        return size

    def remake(self, number: int, size: int, state: dict[str, Any]) -> FeatureBatch:
        """Batch that `make` returned, recreated from its `state()`."""
        if state:
            raise ValueError(f"a batch of {self.name} features has no state, found {sorted(state)}")
        return self.make(number, size)

    def state(self) -> dict[str, Any]:
        """The learned values, as arrays and JSON values."""
        check_is_fitted(self, "seed_", msg="call prepare of %(name)s before state")
        return {name: getattr(self, name) for name in ("seed_", "n_columns_", *self.learnt)}

    @classmethod
    def restored(cls: type[G], params: dict[str, Any], state: dict[str, Any]) -> G:
        """Generator with these parameters and this state; raises a ValueError if they are invalid."""
        try:
            generator = cls(**params)
        except TypeError as error:
            raise ValueError(f"{cls.name} features: {error}") from None
        expected = {"seed_", "n_columns_", *cls.learnt}
        if set(state) != expected:
            raise ValueError(f"{cls.name} features should have {sorted(expected)}, found {sorted(state)}")
        for name, value in state.items():
            setattr(generator, name, value)
        try:
            generator._check_params()
            generator.need_int("seed_", low=-(2**63), high=2**64)
            generator.need_int("n_columns_", low=1, high=2**31)
            generator._check_state()
        except TypeError as error:
            raise ValueError(f"{cls.name} features: {error}") from None
        return generator

    # Methods that a generator defines.

    def _learn(self, X: Any) -> None:
        """Set the attributes in `learnt`."""

    def _learn_from(self, sums: Any, sample: Any) -> None:
        """Set the attributes in `learnt` where rows are not in one array."""
        self._learn(sample)

    def _bytes_to_learn(self) -> int:
        """Number of bytes that `_learn` takes besides X, as far as they grow with the number of columns."""
        return 0

    def _bytes_to_make(self, size: int) -> int:
        """Number of bytes that a batch of `size` features takes, as far as they grow with the number of columns."""
        return 0

    @abc.abstractmethod
    def _make(self, number: int, size: int, residual: Any) -> FeatureBatch:
        """Batch `number` of at most `size` features."""

    def _check_params(self) -> None:
        """Refuse hyper-parameters that cannot be honoured."""

    def _check_state(self) -> None:
        """Refuse values that `prepare` cannot have set."""

    def _size(self) -> int:
        """Number of features as a transformer."""
        return self.need_option("n_features", self.n_features, 1)

    # Checks for all generators.

    def _check_room(self, needed: int) -> None:
        """Refuse more columns than the memory of this machine allows."""
        memory.check_room(
            f"{self.name} features need {memory.size(needed)} of memory for {self.n_columns_} columns",
            needed,
            "use fewer columns, for example by hashing them",
        )

    def need_option(self, name: str, value: Any, low: int) -> int:
        """Check that a hyper-parameter is an integer ≥ low, and return it."""
        try:
            number = operator.index(value)
        except TypeError:
            number = low - 1
        if number < low or isinstance(value, bool):
            raise OptionError(f"{name}={value!r} of {self.name} features must be an integer ≥ {low}")
        return number

    def need_choice(self, name: str, known: tuple[str, ...]) -> None:
        """Check that a hyper-parameter is one of the known names."""
        if getattr(self, name) not in known:
            raise unknown_value(name, getattr(self, name), known)

    def need_flag(self, name: str) -> None:
        """Check that a hyper-parameter is True or False."""
        if not isinstance(getattr(self, name), (bool, np.bool_)):
            raise OptionError(f"{name}={getattr(self, name)!r} of {self.name} features is neither True nor False")

    def need_within(self, name: str, holds: Callable[[float], bool], expected: str) -> None:
        """Check that a hyper-parameter is a number within bounds."""
        value = getattr(self, name)
        if isinstance(value, (bool, str)) or not np.isscalar(value) or not holds(float(value)):  # type: ignore[arg-type]
            raise OptionError(f"{name}={value!r} of {self.name} features must be {expected}")

    def need_positive(self, name: str) -> None:
        """Check that a hyper-parameter is a finite number above zero."""
        self.need_within(name, lambda value: 0.0 < value < np.inf, "a number > 0")

    def need_int(self, name: str, low: int = 0, high: int = 2**62) -> None:
        """Check that a learned value is an integer from low to high − 1."""
        value = getattr(self, name)
        if type(value) is not int or not low <= value < high:
            raise ValueError(f"{name}={value!r} of {self.name} features is not an integer in [{low}, {high})")

    def need_float(self, name: str, low: float = -np.inf) -> None:
        """Check that a learned value is a finite number above low."""
        value = getattr(self, name)
        if type(value) not in (int, float) or not low < value < np.inf:
            raise ValueError(f"{name}={value!r} of {self.name} features is not a finite number > {low}")

    def need_array(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """Check that a learned value is a finite float array of this shape (None: any length), and return it."""
        value = getattr(self, name)
        if not (
            isinstance(value, np.ndarray)
            and value.dtype in (np.float32, np.float64)
            and value.ndim == len(shape)
            and all(wanted in (None, found) for wanted, found in zip(shape, value.shape))
            and np.isfinite(value).all()
        ):
            raise ValueError(f"{name} of {self.name} features is not a finite float array of shape {shape}")
        return value

    # Methods of scikit-learn transformers.

    def fit(self: G, X: Any, y: Any = None) -> G:
        """Prepare with the rows and make batch 0 of `n_features` features."""
        X = self._checked(X, reset=True)
        self.prepare(X, self._seed())
        self.block_ = self._first_batch(X, y)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features of the rows, computed by chunks: (n, width)."""
        check_is_fitted(self, "block_")
        return transform_rows(self.block_, self._checked(X, reset=False), self.name)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: the class's name and a number."""
        check_is_fitted(self, "block_")
        return np.array([f"{type(self).__name__.lower()}{j}" for j in range(self.block_.width)], dtype=object)

    def _first_batch(self, X: Any, y: Any) -> FeatureBatch:
        return self.make(0, self._size(), self._residual_of(X, y) if self.needs_residual else None)

    def _residual_of(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Residual: the rows, and y (its values, or its indicator matrix) minus its mean."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: it has no residual"
            )
        y = checked_labels(y)
        check_consistent_length(X, y)
        if isinstance(y, np.ndarray):
            check_present(y)
        kind = type_of_target(y, input_name="y")
        if kind.startswith("continuous"):
            R = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        elif kind == "multilabel-indicator":
            R = label_sets(y).toarray().astype(np.float64)
        else:
            from sklearn.preprocessing import LabelBinarizer

            R = LabelBinarizer().fit_transform(y)
        return X, R - R.mean(axis=0)

    def _seed(self) -> int:
        given = self.random_state
        return 0 if given is None else self.need_option("random_state", given, 0)

    def _checked(self, X: Any, reset: bool) -> Any:
        return validated(
            self, X, reset=reset, accept_sparse="csr", accept_large_sparse=True, dtype="numeric", order=None
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "block_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.needs_residual
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


#: Parameters that are not saved: threads belong to a machine, and steps of chains are in their state.
_NOT_SAVED = ("n_jobs", "steps")


def described(generator: Any) -> dict[str, Any]:
    """Name, parameters and state of a generator."""
    from lineal import features

    name = generator.name if isinstance(generator, Named) else None
    if name not in features.names() or features.get(name) is not type(generator):
        raise ValueError(f"{type(generator).__name__} has no registered name: see `lineal.features.register`")
    if not isinstance(generator, Restorable):
        raise ValueError(f"{type(generator).__name__} has no get_params, state and restored: it cannot be saved")
    params = {name: value for name, value in generator.get_params(deep=False).items() if name not in _NOT_SAVED}
    return {"name": generator.name, "params": params, "state": generator.state()}


def from_description(description: Any) -> Any:
    """Generator with the given description; raises a ValueError if the description is invalid."""
    from lineal import features

    if not isinstance(description, dict) or set(description) != {"name", "params", "state"}:
        raise ValueError("a generator of features is described by its name, params and state")
    name, params, state = description["name"], description["params"], description["state"]
    if not (isinstance(name, str) and isinstance(params, dict) and isinstance(state, dict)):
        raise ValueError("the name of a generator must be a string, its params and state must be dicts")
    return features.get(name).restored(params, state)


def thread_count(generator: Generator) -> int:
    """Number of threads of a generator's kernels."""
    return pool.thread_count(generator.n_jobs)


def transform_rows(batch: Any, X: Any, who: str) -> np.ndarray:
    """Features of all rows, computed and checked in chunks."""
    X = rows.sliceable(X)
    out = np.empty((X.shape[0], batch.width), rows.precision(X))
    for start, stop in rows.chunks(X, batch.width):
        out[start:stop] = checked_features(batch.transform(X[start:stop]), stop - start, batch.width, who)
    return out


def checked_block(batch: Any, who: str) -> Any:
    """Return the batch; raises a DataError that names it if it has no width or no `transform`."""
    width = batch.width if isinstance(batch, FeatureBatch) else None
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)):
        raise DataError(f"{who}: make gave {batch!r}, which has no `transform` or no integer `width`")
    if width < 0:
        raise DataError(f"{who}: make gave a width of {width}")
    return batch


def checked_features(F: Any, n_rows: int, width: int, who: str) -> np.ndarray:
    """Return F; raises a DataError that names generator and batch (`who`) if type, shape or values are wrong."""
    if sparse.issparse(F) or not isinstance(F, np.ndarray):
        raise DataError(f"{who} features: transform gave {type(F).__name__}, not a NumPy array")
    if F.shape != (n_rows, width):
        raise DataError(f"{who} features: transform gave shape {F.shape} for {n_rows} rows and width {width}")
    if F.dtype not in (np.float32, np.float64):
        raise DataError(f"{who} features: transform gave {F.dtype}, not float32 or float64")
    # One pass and no array of flags: a sum is finite unless something is not, or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        total = F.sum(dtype=np.float64)
    if not np.isfinite(total) and not np.isfinite(F).all():
        row, column = np.argwhere(~np.isfinite(F))[0]
        raise DataError(f"{who} features: row {row} of a chunk, feature {column} is {F[row, column]}")
    return F
