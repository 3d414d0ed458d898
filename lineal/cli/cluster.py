"""Flags that choose a Dask cluster, and the cluster of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lineal.cli.files import STDIN
from lineal.cli.flags import flag_of
from lineal.errors import OptionError
from lineal.system.options import option


@dataclass(frozen=True)
class ClusterOptions:
    """Which Dask cluster holds the rows."""

    workers: int | None = option(None, "start a Dask cluster of this many processes on this machine")
    scheduler: str | None = option(None, "address of a running Dask scheduler, for example tcp://10.0.0.1:8786")
    tls_ca_file: str | None = option(None, "certificate authority of a tls:// scheduler, a PEM file")
    tls_cert: str | None = option(None, "certificate for a tls:// scheduler, a PEM file")
    tls_key: str | None = option(None, "private key for a tls:// scheduler, a PEM file")


def engine_of(training: dict[str, Any], cluster: dict[str, Any], data: str) -> dict[str, Any]:
    """The training options with engine "dask" if a flag names a cluster; refuses flags that contradict each other.

    It also refuses those that say where rows are, if `data` is standard input.
    """
    if data == STDIN:
        _check_stdin(training, cluster)
    if not cluster:
        if training.get("engine") == "dask":
            raise OptionError("--engine dask needs a cluster: give --workers N, or --scheduler ADDRESS")
        return training
    first = flag_of(next(iter(cluster)))
    if training.get("engine", "auto") not in ("auto", "dask"):
        raise OptionError(f"{first} is for --engine dask, not --engine {training['engine']}")
    options = ClusterOptions(**cluster)
    if options.workers is not None and options.scheduler is not None:
        raise OptionError("--workers and --scheduler exclude each other: give one of them")
    if options.workers is None and options.scheduler is None:
        raise OptionError(f"{first} is for --scheduler tls://HOST:PORT: name the scheduler")
    if options.workers is not None:
        if options.workers < 1:
            raise OptionError(f"--workers {options.workers} is not a number of processes, 1 or more")
        tls = next((name for name in cluster if name.startswith("tls")), None)
        if tls is not None:
            raise OptionError(f"{flag_of(tls)} is for --scheduler: the processes of --workers are on this machine")
    return {**training, "engine": "dask"}


def _check_stdin(training: dict[str, Any], cluster: dict[str, Any]) -> None:
    """Refuse flags that standard input cannot honour: its rows are read by this process, into its memory."""
    flags = [flag_of(name) for name in cluster]
    flags += [f"--engine {training['engine']}"] if training.get("engine") in ("file", "dask") else []
    flags += ["--memory-budget"] if training.get("memory_budget") is not None else []
    if flags:
        raise OptionError(
            f"{flags[0]} is for files, and DATA is standard input: write it to a file first, for example with "
            "`lineal convert - rows.arrow`, and train on that"
        )


@contextmanager
def cluster_of(values: dict[str, Any]) -> Iterator[int]:
    """The cluster that the flags choose, while a command runs: its number of workers; 0 without such flags."""
    options = ClusterOptions(**values)
    if options.workers is not None:
        from lineal.engine.dask.cluster import distributed, local_cluster

        with local_cluster(options.workers) as cluster, distributed().Client(cluster):
            yield options.workers
    elif options.scheduler is not None:
        from lineal.engine.dask.cluster import connect

        tls = options.tls_ca_file, options.tls_cert, options.tls_key
        with connect(options.scheduler, *tls) as client, client.as_current():
            yield len(client.nthreads())
    else:
        yield 0
