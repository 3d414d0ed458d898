"""How online learning ended: after its passes, at a limit, or by an interrupt.

An online learner minimises no objective to the end, so that it never "converges": its status says how often it went
over the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from lineal.online.trainer import Trainer
from lineal.problem.solution import Run

#: The statuses of a fit that ended before its passes were done.
EARLY = ("max_time", "interrupted")

ONE_PASS = "one pass"


@dataclass(frozen=True)
class OnlineRun(Run):
    """History, status and message of online learning."""

    @property
    def needs_warning(self) -> bool:
        """Whether it ended early."""
        return self.status in EARLY


def after_passes(number: int) -> str:
    """The status after so many passes."""
    return ONE_PASS if number == 1 else f"{number} passes"


def message_of(status: str, trainer: Trainer) -> str:
    """How learning ended, for people."""
    learned, history = f"{trainer.learner.examples} examples learned", trainer.learner.history
    if history and history[-1]["average_loss"] is not None:
        learned += f", progressive loss {history[-1]['average_loss']:.6g}"
    return f"{'max_time reached' if status == 'max_time' else status}: {learned}"
