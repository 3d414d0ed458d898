"""Refusals of the solvers that need gradients everywhere."""

from __future__ import annotations

from typing import Any

from lineal.errors import OptionError


def check_smooth_loss(solver: str, loss: Any) -> None:
    """Refuse a loss with kinks, and name its smooth relative."""
    if not loss.is_smooth:
        smooth = "multiclass_squared_hinge" if loss.is_direct else "squared_hinge"
        raise OptionError(f"{solver} needs a smooth loss, and {loss.name!r} is not ({smooth!r} is)")


def check_smooth(solver: str, loss: Any, penalty: Any) -> None:
    """Refuse a loss or a penalty with kinks."""
    check_smooth_loss(solver, loss)
    if not penalty.is_smooth:
        raise OptionError(f"{solver} needs penalty 'l2', not {penalty.name!r}")
