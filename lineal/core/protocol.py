"""Methods that kernels may call: how a loss, a penalty or a layout is written once and compiled everywhere.

A kernel that takes a jitted function, or a jitclass, is compiled anew by every process. A kernel that takes a
`NamedTuple` is cached on disk. So losses, penalties, targets and layouts are NamedTuples with plain methods, and
`protocol` tells Numba that ``thing.method(…)`` inside a kernel means the method of the tuple's own class.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from numba.core import types
from numba.extending import overload_method

from lineal.core.jit import IS_PLAIN

C = TypeVar("C", bound=type)

_registered: dict[str, tuple[str, ...]] = {}
_resolved: set[str] = set()


class Fieldless(NamedTuple):
    """Base of a loss or penalty without parameters: Numba cannot pass a tuple without fields."""

    tag: int = 0


def protocol(cls: C) -> C:
    """Class decorator: make the public methods of a NamedTuple (and of its mixins) callable inside kernels."""
    cls.__lineal_protocol__ = True  # type: ignore[attr-defined]
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and not name.startswith("_"):
                _register(name, inspect.signature(member))
    return cls


def _register(name: str, signature: inspect.Signature) -> None:
    parameters = tuple(signature.parameters)
    if _registered.setdefault(name, parameters) != parameters:
        raise TypeError(f"method {name}{parameters} of a kernel protocol is elsewhere {name}{_registered[name]}")
    if name in _resolved or IS_PLAIN:
        return
    _resolved.add(name)

    def resolve(self: Any, *arguments: Any) -> Any:
        cls = getattr(self, "instance_class", None)
        if getattr(cls, "__lineal_protocol__", False):
            return getattr(cls, name, None)
        return None  # somebody else's NamedTuple

    # Numba folds call arguments by the resolver's signature, so it must be the method's own.
    resolve.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    )
    for tuple_type in (types.NamedTuple, types.NamedUniTuple):
        overload_method(tuple_type, name, strict=False, inline="always")(resolve)  # type: ignore[call-arg]
