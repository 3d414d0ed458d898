"""`cached_property` without a lock.

Before Python 3.12, the one of `functools` has a lock for all instances of a class. A property that waits for other
processes, or for other threads that need the same property of another instance, would hold it meanwhile. Two threads
may compute a value twice here; both get the one that was stored first.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """Property that is computed once per instance."""

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Return the value, which is computed if the instance does not have it."""
            if instance is None:
                return self
            known = instance.__dict__
            return known[self.attrname] if self.attrname in known else known.setdefault(
                self.attrname, self.func(instance)
            )  # fmt: skip
