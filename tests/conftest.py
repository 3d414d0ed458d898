"""What tests share: where the optional real data is, and small problems."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from fault_tally import factor, pytest_collection_modifyitems, pytest_terminal_summary, tally  # noqa: F401
from scipy import sparse

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Undo ignored signals, which a shell in the background, `nohup` and the like hand down to us and our children."""
    for name, handler in (
        ("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL), ("SIGTERM", signal.SIG_DFL),
    ):  # fmt: skip
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data sets, or a skip: users do not have it."""
    folder = Path(os.environ.get("LINEAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder} (set LINEAL_DATA)")
    return folder


def random_problem(seed: int, n: int = 60, d: int = 7, k: int = 3, density: float = 0.5) -> tuple:
    """X (CSR, with an empty row, an empty, a constant and a duplicated column) and labels 0 … k − 1, all present."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    X[0] = 0.0
    if d > 4:
        X[:, 1] = 0.0
        X[:, 2] = 1.0
        X[:, 4] = X[:, 3]
    y = rng.integers(0, k, n)
    y[:k] = np.arange(k)
    return sparse.csr_array(X), y


@pytest.fixture(scope="module")
def client():
    """A client of a Dask cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed")
    from lineal.engine.dask.cluster import local_cluster

    with local_cluster(2, memory_limit=None) as cluster, distributed.Client(cluster) as client:
        yield client
