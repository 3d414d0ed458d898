"""How a share reaches a worker: as a task of Dask's scheduler, or as a call from the client.

A task goes from the client to the scheduler and from there to the worker; its result is announced on the same way, and
fetched. That takes 15 to 30 ms, whatever the task does. A call is one message to the worker and one back. Dask knows
nothing of it, neither makes nor moves data for it, and does not repeat it. So calls are for short passes over rows that
workers hold already, and whatever goes wrong with one is left to tasks.

The shuffle of Dask itself sends its data in this way, through handlers of its workers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributed import Client, get_worker
from distributed.core import send_recv
from distributed.protocol import to_serialize
from distributed.utils import run_in_executor_with_context

from lineal.engine.dask.holder import Placed, Recipe, Request
from lineal.engine.dask.lineage import Script
from lineal.engine.dask.shares import Result, run_share
from lineal.engine.source import RawRows

#: What workers call the handler that answers calls.
HANDLER = "lineal_share"

#: Seconds after which a worker to which there is no connection cannot be reached.
CONNECT_SECONDS = 3.0


class Call(NamedTuple):
    """What a worker is sent: the arguments of `run_share`."""

    request: Request
    share: int
    mine: tuple[Placed, ...]
    arguments: tuple[Any, ...]
    script: Script | None
    recipe: Recipe | None
    cuts: tuple[Any, ...]


class NoAnswer(Exception):
    """A worker does not know of calls."""


class Answers:
    """Answers the calls that reach a worker, on the threads that run its tasks."""

    def __init__(self, worker: Any) -> None:
        self.worker = worker

    async def answer(self, call: Call) -> dict[str, Any]:
        """Handler: run a share."""
        executor = self.worker.executors["default"]
        return {"result": to_serialize(await run_in_executor_with_context(executor, run_share, self.worker, *call))}


def run_task(
    request: Request, share: int, mine: tuple[Placed, ...], arguments: tuple[Any, ...], script: Script | None,
    recipe: Recipe | None, cuts: tuple[Any, ...], *parts: RawRows,
) -> Result:  # fmt: skip
    """Task: run a share. From now on, the worker answers calls."""
    worker = get_worker()
    if HANDLER not in worker.handlers:
        worker.handlers[HANDLER] = Answers(worker).answer
    return run_share(worker, request, share, mine, arguments, script, recipe, cuts, *parts)


async def call(client: Client, address: str, what: Call) -> Result:
    """Result of a share on the worker at an address, which has run a task before."""
    connection = await client.rpc.connect(address, timeout=CONNECT_SECONDS)
    try:
        answer = await send_recv(connection, op=HANDLER, call=to_serialize(what))
    finally:
        client.rpc.reuse(address, connection)
    if answer is None:
        raise NoAnswer(f"the worker at {address} has not run a task of lineal")
    result: Result = answer["result"]
    return result
