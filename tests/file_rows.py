"""Problems whose rows are in converted files, cut into a given number of blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lineal.data.binary.layout import write_layout
from lineal.data.dataset import Dataset
from lineal.engine import file as file_engine
from lineal.engine.file import FileEngine, FileSource
from lineal.engine.scratch import Scratch, ScratchCache
from lineal.linear.fit import Problem, prepare_source
from lineal.linear.options import TrainOptions

#: A budget that is no limit.
AMPLE = 8 << 30


def write_files(folder: Path, X, y, weights=None, parts: int = 1, **names) -> list[str]:
    """The rows in several files of different lengths."""
    n = X.shape[0]
    if isinstance(y, np.ndarray) and y.ndim == 2:
        y = sparse.csr_array(y.astype(bool))
    if sparse.issparse(y):
        names = {"class_names": [str(column) for column in range(y.shape[1])], **names}
    # the first file is shorter than the others
    bounds = [0, *(n * (2 * part - 1) // (2 * parts - 1) for part in range(1, parts + 1))]
    paths = []
    for number in range(parts):
        rows = slice(bounds[number], bounds[number + 1])
        path = folder / f"part-{number}.arrow"
        write_layout(Dataset(X[rows], y[rows], None if weights is None else weights[rows], **names), path)
        paths.append(str(path))
    return paths


def cut_into(monkeypatch: pytest.MonkeyPatch, X, blocks: int) -> None:
    """Let files with these rows be read in about that many blocks."""
    size = X.nbytes if isinstance(X, np.ndarray) else X.nnz * (X.dtype.itemsize + 4)
    rows = -(-X.shape[0] // blocks)
    monkeypatch.setattr(file_engine, "LEAST_BLOCK", 1)
    monkeypatch.setattr(file_engine, "BLOCK_BYTES", 1 << 40 if blocks == 1 else max(size // blocks, 4 * rows))


def problem_in(paths: list[str], options: TrainOptions, budget: int = AMPLE) -> Problem:
    """The problem of converted files."""
    return prepare_source(FileSource(paths, budget), options)


def engine_of(problem: Problem) -> FileEngine:
    engine = problem.objective.engine
    assert isinstance(engine, FileEngine)
    return engine


def limit_scratch(problem: Problem, max_bytes: int) -> Scratch:
    """Keep at most so many bytes of row state in memory."""
    scratch = Scratch(max_bytes)
    object.__setattr__(problem.objective.engine, "cache", ScratchCache(scratch))
    return scratch
