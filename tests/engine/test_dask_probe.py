"""Addresses at which something else than a scheduler of Dask answers, or nothing at all."""

from __future__ import annotations

import asyncio
import re
import socket
import threading

import pytest

from lineal.errors import ClusterError, OptionError

pytest.importorskip("distributed")

#: What servers say to whoever connects: the first bytes of the second one are a length of 2^61 bytes for Dask.
SAID = {"nothing": b"", "its name": b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "numbers": bytes(64)}


@pytest.fixture(params=SAID)
def server(request):
    """What a server says, and its port; it keeps its connections open."""
    kept, listener = [], socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                kept.append(listener.accept()[0])
            except OSError:
                return
            kept[-1].sendall(SAID[request.param])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield request.param, listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for connection in kept:
        connection.close()


def test_who_is_no_scheduler_is_named_soon(server):
    from lineal.engine.dask.cluster import connect

    says, port = server
    message = "cannot reach a Dask scheduler" if says == "nothing" else "no Dask scheduler"
    with pytest.raises(ClusterError, match=f"{message} at tcp://127.0.0.1:{port}.*check the address"):
        connect(f"tcp://127.0.0.1:{port}", timeout=0.5)


def test_a_worker_is_no_scheduler(client):
    from lineal.engine.dask.cluster import connect

    address = min(client.nthreads())
    with pytest.raises(ClusterError, match=f"no Dask scheduler at {re.escape(address)}: a worker of Dask answers"):
        connect(address)
    with connect(client.scheduler.address) as other:
        assert other.nthreads() == client.nthreads()


def test_an_asynchronous_client_is_refused():
    distributed = pytest.importorskip("distributed")
    from lineal.engine.dask.cluster import client_in_use

    async def use():
        async with distributed.Client(n_workers=0, processes=False, asynchronous=True, dashboard_address=None):
            client_in_use()

    with pytest.raises(OptionError, match="asynchronous=False"):
        asyncio.run(use())
