"""Finds out who answers at an address before a client is made for it.

A client of Dask waits without a limit for a process that accepts connections and says nothing, such as a scheduler that
hangs. It takes the first bytes of other servers for a length, and closes after half a minute where it has failed.
"""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed import Security
from distributed.comm import connect
from distributed.core import send_recv


class Stranger(Exception):
    """Someone answers, but not as a scheduler of Dask does."""


def probe(address: str, security: Security | None, timeout: float) -> None:
    """Ask a scheduler who it is: an `OSError` without an answer, a `Stranger` if it is none.

    Errors of the certificates are those of Dask.
    """
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:  # this thread may run an event loop of its own, as in a notebook
        kind = pool.submit(context.run, asyncio.run, _kind(address, security or Security(), timeout)).result()
    if kind != "Scheduler":
        raise Stranger(f"a {kind.lower()} of Dask answers there")


async def _kind(address: str, security: Security, timeout: float) -> str:
    """What answers: "Scheduler" or "Worker", for example."""
    begin = asyncio.get_running_loop().time()
    arguments = security.get_connection_args("client")
    # Dask tries again where nobody answers, and gives up by itself; the second limit is for those who say nothing.
    try:
        connection = await asyncio.wait_for(connect(address, timeout=timeout, **arguments), timeout + 1.0)
    except TimeoutError:
        raise TimeoutError("connections are accepted, but nothing is said") from None
    except (OSError, TypeError):
        raise
    except Exception as error:  # what other servers say, and how much memory that would take
        raise Stranger("something else than Dask answers there") from error
    try:
        left = max(timeout - (asyncio.get_running_loop().time() - begin), 1.0)
        answer: Any = await asyncio.wait_for(send_recv(connection, op="identity"), left)
    except TimeoutError:
        raise TimeoutError("connections are accepted, but no question is answered") from None
    finally:
        connection.abort()
    found = answer.get("type") if isinstance(answer, dict) else None
    return str(found or "process")
