"""When the next certificate is due, for methods without a free estimate of their gap."""

from __future__ import annotations


class CertificateWaits:
    """Waits between certificates that grow with the iterations, so that certificates cost a fixed share of the time."""

    def __init__(self, least: int, every: int, first: int = 0) -> None:
        self.least, self.every, self.next = least, every, first

    def is_due(self, iteration: int) -> bool:
        """Whether to certify now. If so, the next time is `least` iterations later, or 1/`every` of those so far."""
        if iteration < self.next:
            return False
        self.next = iteration + max(self.least, iteration // self.every)
        return True
