"""A Dask cluster on this machine, the same for all contestants: worker processes with one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from distributed import Client, LocalCluster


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Client]:
    """A client of `n_workers` processes with one thread each, on loopback, without a dashboard."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None,
            worker_dashboard_address=None, memory_limit=0, silence_logs="ERROR",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        client.wait_for_workers(n_workers)
        yield client


def worker_pids(client: Client) -> list[int]:
    """Process numbers of the workers."""
    return sorted(client.run(os.getpid).values())
