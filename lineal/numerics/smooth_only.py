"""Checks of the solvers that need a smooth loss or penalty."""

from __future__ import annotations

from typing import Any

from lineal.errors import OptionError


def check_smooth_loss(solver: str, loss: Any) -> None:
    """Raise an error for a loss that is not smooth, and name a smooth one."""
    if not loss.is_smooth:
        smooth = "multiclass_squared_hinge" if loss.is_direct else "squared_hinge"
        raise OptionError(f"{solver} needs a smooth loss, and {loss.name!r} is not smooth; use {smooth!r}")


def check_smooth(solver: str, loss: Any, penalty: Any) -> None:
    """Raise an error for a loss or a penalty that is not smooth."""
    check_smooth_loss(solver, loss)
    if not penalty.is_smooth:
        raise OptionError(f"{solver} needs penalty 'l2', not {penalty.name!r}")
