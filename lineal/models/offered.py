"""Methods that an estimator has only with some of its parameters, and whose absence explains itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any


class _Offered:
    """Descriptor of a method: an AttributeError says why an estimator does not have it, so that `hasattr` is False.

    Like `available_if` of scikit-learn, whose error does not say why.
    """

    def __init__(self, function: Callable[..., Any], why_not: Callable[[Any], str | None]) -> None:
        self.function, self.why_not = function, why_not
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.function
        if (why := self.why_not(estimator)) is not None:
            name = self.function.__name__
            raise AttributeError(f"this {type(estimator).__name__} has no {name}: {why}")
        return MethodType(self.function, estimator)


def offered_unless(why_not: Callable[[Any], str | None]) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a method that an estimator has unless `why_not` says why it does not."""
    return lambda function: _Offered(function, why_not)
