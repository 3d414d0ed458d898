"""When to compute the next certificate, for methods that have no cheap estimate of their gap."""

from __future__ import annotations

from lineal.problem.loop_state import LoopState


class CertificateWaits(LoopState):
    """Intervals between certificates that grow with the iterations, so that they take a fixed fraction of the time."""

    state_names = ("next",)

    def __init__(self, least: int, every: int, first: int = 0) -> None:
        self.least, self.every, self.next = least, every, first

    def is_due(self, iteration: int) -> bool:
        """Whether to compute a certificate now.

        If so, the next one is due after `least` iterations, or after the iterations so far divided by `every`.
        """
        if iteration < self.next:
            return False
        self.next = iteration + max(self.least, iteration // self.every)
        return True
