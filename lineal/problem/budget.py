"""Tolerance and limits of a fit: the keywords that every solver takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineal.core.threads import thread_count

if TYPE_CHECKING:
    from lineal.problem.checkpoint import Checkpoint
    from lineal.problem.kept import Kept
    from lineal.problem.monitor import Callback


@dataclass(frozen=True)
class Budget:
    """Tolerance and limits of one fit.

    Attributes
    ----------
    tol : the fit ends when the value of its certificate is at most this.
    max_iter : largest number of iterations.
    max_time : largest number of seconds, or None for no limit.
    callbacks : functions that are called after every iteration; one that returns True ends the fit.
    n_jobs : number of threads; None means all cores.
    seed : seed of the random numbers, for solvers that use some.
    checkpoint : file from which the fit continues if it is killed, or None.
    kept : where the best iterate is kept, for rows on machines that may not answer; else None.
    is_slow : tells from the history whether another solver should take over; the fit then ends as "slow". It must not
        depend on the clock, so that a fit always takes the same path.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    callbacks: Sequence[Callback] = ()
    n_jobs: int | None = None
    seed: int = 0
    checkpoint: Checkpoint | None = None
    kept: Kept | None = None
    is_slow: Callable[[list[dict[str, Any]]], bool] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "callbacks", tuple(self.callbacks))

    @property
    def threads(self) -> int:
        """Number of threads that `n_jobs` stands for."""
        return thread_count(self.n_jobs)
