"""How often a fit went over the rows on a cluster, and how many bytes went over the loopback interface meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

#: Counters of the network interfaces; the loopback interface carries what client, scheduler and workers send.
COUNTERS = Path("/proc/net/dev")


@dataclass
class Traffic:
    """Context that counts the passes over the rows and the bytes between the processes of this machine.

    Bytes include heartbeats, and whatever else uses the loopback interface: nothing else should.
    """

    rounds: int | None = None
    megabytes: float | None = None

    def __enter__(self) -> Traffic:
        from lineal.engine.dask.rounds import Rounds

        self.rounds, self._run, self._before = 0, Rounds.run, loopback_bytes()

        @wraps(Rounds.run)
        def counted(rounds: Any, *arguments: Any) -> Any:
            assert self.rounds is not None
            self.rounds += 1
            return self._run(rounds, *arguments)

        Rounds.run = counted
        return self

    def __exit__(self, *error: Any) -> None:
        from lineal.engine.dask.rounds import Rounds

        Rounds.run, after = self._run, loopback_bytes()
        if after is not None and self._before is not None:
            self.megabytes = (after - self._before) / 1e6


def loopback_bytes() -> int | None:
    """Bytes that the loopback interface has received; None where there is no such counter."""
    if not COUNTERS.exists():
        return None
    lines = [line.split() for line in COUNTERS.read_text().splitlines()]
    return next((int(words[1]) for words in lines if words[0] == "lo:"), None)
