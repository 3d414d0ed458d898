"""Connections to Dask: a cluster on this machine, one that runs elsewhere, and the one that the user has.

Dask is imported when it is needed, and only then.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lineal import __version__
from lineal.core.threads import available_cores
from lineal.errors import ClusterError, DependencyError, OptionError

if TYPE_CHECKING:
    from distributed import Client, LocalCluster

#: Seconds to wait for a scheduler.
TIMEOUT = 10.0

#: How long a worker of a local cluster may take to start again.
LOST_WORKER = "1h"

#: Protocols of Dask that need no warning.
ENCRYPTED_OR_LOCAL = ("tls", "wss", "inproc", "unix")

INSTALL = 'pip install "lineal[dask]"'


def distributed() -> Any:
    """The package `distributed`, or an error that says how to install it."""
    try:
        import distributed
    except ImportError as error:
        raise MissingDask(f"engine='dask' needs Dask: {INSTALL} ({error})") from None
    return distributed


class MissingDask(OptionError, DependencyError):
    """Dask is not installed."""


def local_cluster(
    n_workers: int, memory_limit: str | float | None = "auto", threads: int | None = None
) -> LocalCluster:
    """Processes on this machine, which listen on its loopback interface only; no dashboard is started.

    `threads` is the number of threads per worker; by default the cores are shared out.
    """
    package = distributed()
    if n_workers < 1:
        raise OptionError(f"workers={n_workers} is not a number of processes: give 1, 2, …")
    threads = max(1, available_cores() // n_workers) if threads is None else threads
    from dask import config

    # Dask serves some pages even without a dashboard: here there are none, at a port of which nobody is told.
    settings = {"distributed.scheduler.http.routes": [], "distributed.comm.timeouts.connect": "4s"}
    try:
        with config.set(settings):
            cluster: LocalCluster = _patient(package.LocalCluster)(
                n_workers=n_workers, threads_per_worker=threads, processes=True, host="127.0.0.1",
                dashboard_address=None, worker_dashboard_address=None, memory_limit=memory_limit,
                silence_logs=logging.CRITICAL, preload=["lineal.engine.dask.interrupts"],
                scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            )  # fmt: skip
    except (OSError, TimeoutError, RuntimeError) as error:
        raise ClusterError(f"cannot start {n_workers} workers on this machine: {error}") from error
    return cluster


def _patient(kind: Any) -> Any:
    """A kind of cluster that does not give up processes whose workers are slow to come back after they were killed.

    Dask ends them for good after 15 seconds, in which a busy machine may not start a worker: all could be lost.
    """
    from dask import config

    class Patient(kind):
        def _update_worker_status(self, op: str, msg: Any) -> None:
            with config.set({"distributed.deploy.lost-worker-timeout": LOST_WORKER}):
                super()._update_worker_status(op, msg)

    Patient.__name__ = Patient.__qualname__ = kind.__name__
    return Patient


def connect(
    address: str,
    tls_ca_file: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
    timeout: float = TIMEOUT,
) -> Client:
    """Connect to the scheduler at an address, for example ``tcp://host:8786`` or ``tls://host:8786``."""
    package = distributed()
    given = {"tls_ca_file": tls_ca_file, "tls_client_cert": tls_cert, "tls_client_key": tls_key}
    given = {name: value for name, value in given.items() if value is not None}
    is_tls = urlsplit(address).scheme == "tls"
    if given and not is_tls:
        raise OptionError(f"certificates are for a scheduler at tls://…, not {address}")
    _check_port(address)
    _warn_of_plain(address)
    _check_readable(given)
    from lineal.engine.dask.probe import Stranger, probe

    security = package.Security(**given, require_encryption=True) if given else None
    try:
        probe(address, security, timeout)
        client: Client = package.Client(address, security=security, timeout=timeout, set_as_default=False)
    except (ssl.SSLError, TypeError) as error:  # a TypeError is what Dask raises if certificates are missing
        raise _no_tls(address, error) from error
    except Stranger as error:
        raise ClusterError(f"no Dask scheduler at {address}: {error}; check the address and its port") from error
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ClusterError(
            f"cannot reach a Dask scheduler at {address} within {timeout:g} s ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no answer'}): check the address and that it runs"
        ) from error
    return client


def _check_port(address: str) -> None:
    """Refuse the address of a scheduler without the number of its port."""
    scheme, _, rest = address.rpartition("://")
    if scheme not in ("", "tcp", "tls"):
        return
    try:
        port = urlsplit(f"tcp://{rest}").port
    except ValueError:
        port = None
    if port is None:
        shown = f"{scheme or 'tcp'}://{urlsplit(f'tcp://{rest}').hostname or 'HOST'}:8786"
        raise OptionError(f"the scheduler {address!r} has no port number: give its whole address, such as {shown}")


def _no_tls(address: str, error: Exception) -> OptionError:
    return OptionError(
        f"no encrypted connection to {address} ({str(error).splitlines()[0]}): a tls:// scheduler needs tls_ca_file, "
        "tls_cert and tls_key, three PEM files that suit it"
    )


def _check_readable(files: Mapping[str, Any]) -> None:
    for name, path in files.items():
        try:
            with open(str(path), "rb"):
                pass
        except OSError as error:
            raise OptionError(f"cannot read {name.replace('client_', '')} {path}: {error.strerror}") from None


def no_workers(client: Client, seconds: float) -> ClusterError:
    """The error for a cluster that has had no workers for a time."""
    address = str(client.scheduler.address) if client.scheduler else "an unknown address"
    return ClusterError(
        f"the cluster at {address} has had no workers for {seconds:.0f} s: start some with `dask worker {address}`"
    )


def check_synchronous(client: Client) -> None:
    """Refuse a client whose answers have to be awaited."""
    if client.asynchronous:
        raise OptionError("the Dask client is asynchronous: use Client(..., asynchronous=False)")


def check_workers(client: Client) -> None:
    """Refuse workers without lineal, or with another version: a task of ours would end them, one after the other."""
    found = client.run(eval, "__import__('lineal').__version__", on_error="return")
    for worker, version in found.items():
        if isinstance(version, ImportError):
            raise ClusterError(f"worker {worker} cannot import lineal ({version}): install it where the workers run")
        if isinstance(version, str) and version != __version__:
            raise ClusterError(f"worker {worker} has lineal {version}, and this is {__version__}: install the same one")


def active_client() -> Client | None:
    """The client that the user has made in this process, or None; Dask is not imported for that."""
    package = sys.modules.get("distributed")
    if package is None:
        return None
    try:
        client: Client = package.get_client(timeout=TIMEOUT) if is_in_task() else package.default_client()
    except (ValueError, OSError, TimeoutError):
        return None
    return client if client.status == "running" else None


def client_in_use() -> Client:
    """The client that is active in this process, for a fit; an error if there is none, or if its workers differ."""
    distributed()
    client = active_client()
    if client is None:
        raise OptionError(
            "there is no active Dask client: create one with distributed.Client(...) and keep it open (on the command "
            "line: --workers N, or --scheduler ADDRESS)"
        )
    check_synchronous(client)
    if not is_in_task() and client.scheduler is not None:
        _warn_of_plain(str(client.scheduler.address))
    make_room_for_tasks()
    check_workers(client)
    return client


def is_client_active() -> bool:
    """Whether a fit with `engine="auto"` uses a cluster for files: there is a client, and this is no Dask task."""
    return active_client() is not None and not is_in_task()


def is_in_task() -> bool:
    """Whether this thread runs a Dask task."""
    package = sys.modules.get("distributed")
    if package is None:
        return False
    try:
        package.get_worker()
    except ValueError:
        return False
    return True


def make_room_for_tasks() -> None:
    """Let the worker of this thread run further tasks, if this is one: a fit in a task waits for others."""
    if is_in_task():
        with suppress(KeyError):  # it has done so before
            distributed().secede()


#: Addresses that have been warned of.
_warned: set[str] = set()


def _warn_of_plain(address: str) -> None:
    """Warn, once per process, of a connection to another machine that others can read and use."""
    address = address if "://" in address else f"tcp://{address}"
    parts = urlsplit(address)
    if address in _warned or parts.scheme in ENCRYPTED_OR_LOCAL or not parts.hostname or _is_here(parts.hostname):
        return
    _warned.add(address)
    warnings.warn(
        f"the connection to {address} is neither encrypted nor authenticated: use tls:// on networks that others can "
        "reach",
        stacklevel=3,
    )


def _is_here(host: str) -> bool:
    """Whether a host name is that of the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(name).partition("%")[0]).is_loopback for name in found)
