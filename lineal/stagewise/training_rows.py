"""Rows to train a stagewise model on: arrays in this process, files, or partitions on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.threads import blas_limit, thread_count
from lineal.engine.base import Block, Engine
from lineal.engine.local import LocalEngine
from lineal.engine.source import Source
from lineal.errors import DataError
from lineal.features import elsewhere
from lineal.features.contracts import KnowsWidth
from lineal.features.rows import design_of, in_precision, sample
from lineal.problem.drawn_rows import drawn, training_and_held_out
from lineal.problem.encoder import EncodedElsewhere, gathered_weights, survey_of
from lineal.problem.row_weights import row_weights
from lineal.problem.targets import Encoded, encode, true_labels
from lineal.solvers.stagewise.stagewise import chunk_bytes
from lineal.stagewise.options import StagewiseOptions
from lineal.system import memory
from lineal.system.validation import share

#: Arrays of the size of a chunk of features that a step has at once.
CHUNK_ARRAYS = 3


@dataclass(frozen=True)
class TrainingRows:
    """Rows with labels and weights, wherever they are.

    Attributes
    ----------
    engine : the rows; those that are held out have no weight.
    encoded : what their labels mean.
    held_out : weights of held-out rows, (n,), zero for others; None if none are.
    X : the rows as an array or a CSR matrix where they are in this process, else None.
    """

    engine: Engine
    encoded: Encoded
    held_out: np.ndarray | None = None
    X: Any = None

    @staticmethod
    def of_arrays(
        X: Any, y: Any, options: StagewiseOptions, sample_weight: Any, class_names: list[Any] | None
    ) -> TrainingRows:
        """Rows in this process. X is converted as a whole only from wider floats, or to float64."""
        X = _numbers(X, options.precision)
        encoded = encode(y, direct=False, class_names=class_names)
        weights = row_weights(sample_weight, options.class_weight, encoded, X.shape[0])
        k, threads = encoded.n_columns, thread_count(options.n_jobs)
        # One block: chunks of features bound the memory.
        engine = LocalEngine(design_of(X), encoded.targets, weights, k, None, threads, block_rows=X.shape[0])
        return TrainingRows(engine, encoded, X=X)._held_out(weights, options)

    @staticmethod
    def of_source(source: Source, options: StagewiseOptions) -> TrainingRows:
        """Rows in files or on a cluster, which stay there; every part is looked at once.

        Held-out rows are drawn here, from the weights and labels of all rows: 28 bytes per row.
        """
        survey = survey_of(source)
        if survey.offset_columns is not None:
            raise DataError("stagewise models have no offsets: leave them out of the partitions")
        columns = survey.labels.columns(direct=False, class_names=source.class_names)
        encoder = survey.encoder(columns, options.class_weight)
        engine = source.engine(encoder, columns.n_columns, thread_count(options.n_jobs))
        rows = TrainingRows(engine, EncodedElsewhere(engine, columns))
        if not options.validation_fraction:
            return rows
        if engine.room is not None:
            memory.check_budget("validation_fraction", 28 * engine.shape[0], engine.room)
        return rows._held_out(gathered_weights(engine), options)

    def _held_out(self, weights: np.ndarray, options: StagewiseOptions) -> TrainingRows:
        """The same rows, of which some are held out if the options say so."""
        fraction = share(options.validation_fraction, int(np.count_nonzero(weights)))
        if not fraction:
            return self
        held = drawn(fraction, weights, self.encoded, int(options.random_state or 0))
        training, held_out = training_and_held_out(weights, held)
        return replace(self, engine=self.engine.with_weights(training), held_out=held_out)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored without their zeros."""
        return not self.engine.is_dense

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.engine.shape[1]

    @property
    def n_training(self) -> int:
        """Number of rows to train on."""
        n = self.engine.shape[0]
        return n if self.held_out is None else n - int(np.count_nonzero(self.held_out))

    @property
    def is_independent(self) -> bool:
        """Whether score columns do not compete: two classes, and label sets."""
        return self.encoded.is_multilabel or self.encoded.n_columns == 1

    @property
    def n_sampled(self) -> int:
        """Number of rows that generators which need a sample learn from."""
        n = self.engine.shape[0]
        return n if self.X is not None else min(n, elsewhere.sampled_rows(self.engine))

    def sample(self, most: int, seed: int, stream: int, dtype: Any) -> tuple[Any, Any, np.ndarray]:
        """Some of the training rows with class numbers or label sets, and weights: gathered from where they are."""
        most = min(most, elsewhere.sampled_rows(self.engine))
        chosen = sample(self.engine.shape[0], most, seed, stream)
        parts = self.engine.gather(LabelledRows(), chosen, self.encoded.n_columns, dtype)
        X, y, weights = (elsewhere.stacked(list(part)) for part in zip(*parts))
        trains = np.flatnonzero(weights > 0.0)
        return X[trains], y[trains], weights[trains]

    def prepare(self, generator: Any, options: StagewiseOptions) -> Any:
        """Prepare a generator with these rows."""
        seed = int(options.random_state or 0)
        if self.X is None:
            return elsewhere.prepare(generator, self.engine, seed, np.dtype(options.precision))
        generator.prepare(self.X, seed)
        return generator

    def check_memory(self, maker: Any, options: StagewiseOptions) -> None:
        """Refuse stages whose matrices do not fit into the available memory, or into that of a budget."""
        n, size = self.engine.shape[0], options.size
        p = maker.width_of(0, size) if isinstance(maker, KnowsWidth) else size
        needed = 24 * p * p
        if self.engine.room is not None:
            chunk = chunk_bytes(self.engine) or 0
            at_once = 1 if self.engine.is_dense else self.engine.threads
            needed += at_once * (8 * p * p + CHUNK_ARRAYS * max(chunk, p * np.dtype(options.precision).itemsize))
            needed += 8 * p * p * int(np.log2(self._n_blocks()) + 1)
            memory.check_budget(f"a stage of {p} features (block_size)", needed, self.engine.room)
        elif self.X is not None:
            needed += min(n * p * np.dtype(options.precision).itemsize, int(options.block_memory))
        memory.check_room(
            f"stages of {p} features need {memory.size(needed)} of memory", needed, "lower block_size or block_memory"
        )

    def _n_blocks(self) -> int:
        from lineal.engine.file import FileEngine

        return len(self.engine.spans) if isinstance(self.engine, FileEngine) else 1

    @contextmanager
    def blas_threads(self, n_jobs: int | None) -> Iterator[None]:
        """Context with the threads of dense products: one where threads of this process have blocks of their own."""
        has_own_blocks = self.engine.room is not None and self.is_sparse
        with blas_limit(1 if has_own_blocks else thread_count(n_jobs)):
            yield


def _numbers(X: Any, precision: str) -> Any:
    if sparse.issparse(X):
        X = X.tocsr()
    elif not isinstance(X, np.ndarray) or X.ndim != 2:
        raise DataError("X must be a NumPy array of two dimensions or a SciPy sparse matrix")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"X of shape {X.shape} has nothing to learn from")
    if X.dtype.kind not in "fiub":
        raise DataError(f"X must hold real numbers, found {X.dtype}")
    return in_precision(X, precision)


@dataclass(frozen=True)
class LabelledRows:
    """For `Engine.gather`: chosen rows of a block, with their class numbers or label sets and their weights."""

    def __call__(self, block: Block, chosen: np.ndarray | None, k: int, dtype: Any) -> tuple[Any, Any, np.ndarray]:
        mine = elsewhere.among(block, chosen)
        X = elsewhere.ChosenRows()(block, chosen, dtype)
        return X, true_labels(block.targets, k)[mine], block.weights[mine]
