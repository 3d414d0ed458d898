"""What tasks need: small things go into the tasks, large ones to workers, and tasks refer to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dask.task_spec import TaskRef
from distributed import Client, Future

from lineal.engine.dask.parcels import is_small

#: Number of workers that get large arguments from the client; the others get them from these.
SEEDS = 4


class Sent(NamedTuple):
    """Numbers of the places that a thing was sent to."""

    numbers: tuple[int, ...]


class Outbox:
    """Collects what tasks on workers at some addresses need, and sends what is large."""

    def __init__(self, client: Client, addresses: Sequence[str]) -> None:
        self.client, self.addresses = client, list(addresses)
        self.things: list[tuple[Any, str]] = []
        self.futures: list[Future] = []
        self._arrived: set[int] = set()

    def to_one(self, thing: Any, address: str) -> Any:
        """A thing for one worker."""
        if thing is None or is_small(thing):
            return thing
        self.things.append((thing, address))
        return Sent((len(self.things) - 1,))

    def to_all(self, thing: Any) -> Any:
        """A thing for all workers: some get it from the client, the others from these."""
        if thing is None or is_small(thing):
            return thing
        seeds = self.addresses[:: max(1, -(-len(self.addresses) // SEEDS))]
        first = len(self.things)
        self.things += [(thing, address) for address in seeds]
        return Sent(tuple(range(first, len(self.things))))

    async def send(self) -> tuple[Callable[..., Any], list[Future]]:
        """Send the large things; returns what tasks put in place of a thing, and the futures to keep."""
        self.futures = list(await asyncio.gather(*map(self._send_one, range(len(self.things)))))
        return self.refs, self.futures

    async def _send_one(self, number: int) -> Future:
        thing, address = self.things[number]
        (future,) = await self.client.scatter([thing], workers=[address], direct=True, hash=False)
        self._arrived.add(number)
        found: Future = future
        return found

    def late(self) -> list[str]:
        """Addresses of things that have not arrived yet."""
        return [address for number, (_, address) in enumerate(self.things) if number not in self._arrived]

    def refs(self, thing: Any, position: int = 0) -> Any:
        """What a task has in place of a thing; `position` is that of its worker."""
        if not isinstance(thing, Sent):
            return thing
        step = max(1, -(-len(self.addresses) // SEEDS))
        return TaskRef(self.futures[thing.numbers[min(position // step, len(thing.numbers) - 1)]].key)
