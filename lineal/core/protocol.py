"""Methods that kernels may call: how a loss, a penalty or a layout is written once and compiled everywhere.

A kernel that takes a jitted function, or a jitclass, is compiled anew by every process. A kernel that takes a
`NamedTuple` is cached on disk. So losses, penalties, targets and layouts are NamedTuples with plain methods, and
`protocol` tells Numba that ``thing.method(…)`` inside a kernel means the method of the tuple's own class.

Methods are always inlined. Numba would nevertheless compile each of them to machine code, and work out its types anew
wherever it is called, and for each of these all methods that it calls in turn. Here that is done once per method and
types of arguments, and no machine code is made: compiling the kernels of a fit takes about half the time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numba
from numba.core import types
from numba.core.typing import templates
from numba.core.typing.templates import infer, infer_getattr, infer_global

from lineal.core.jit import IS_PLAIN
from lineal.core.numba_internals import OverloadFunctionTemplate, OverloadMethodTemplate, compiler_flags

C = TypeVar("C", bound=type)

#: Parameters of each method, which all classes that have it must share.
_registered: dict[str, tuple[str, ...]] = {}
_resolved: set[str] = set()

#: Classes whose methods kernels may call.
_classes: set[type] = set()


class Fieldless(NamedTuple):
    """Base of a loss or penalty without parameters: Numba cannot pass a tuple without fields."""

    tag: int = 0


def protocol(cls: C) -> C:
    """Class decorator: make the public methods of a NamedTuple (and of its mixins) callable inside kernels."""
    _classes.add(cls)
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
        return getattr(self.instance_class, name)

    # Numba folds call arguments by the resolver's signature, so it must be the method's own.
    resolve.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    )
    options = {"no_cpython_wrapper": True}
    made = templates.make_overload_template(resolve, resolve, options, strict=False, inline="always")
    template = type(made.__name__, (_InlinedFunction, made), {"typed": {}})
    infer(template)
    infer_global(resolve, types.Function(template))
    for tuple_type in (types.NamedTuple, types.NamedUniTuple):
        infer_getattr(
            templates.make_overload_attribute_template(
                tuple_type, name, resolve, inline="always", base=_ProtocolMethod, strict=False
            )
        )


class _InlinedFunction(OverloadFunctionTemplate):
    """Template of a function that is always inlined: its types are found once, and it is never compiled on its own."""

    #: Signatures by the types of arguments.
    typed: ClassVar[dict[Any, Any]]

    def generic(self, args: Any, kws: Any) -> Any:
        """Signature of a call. Numba keeps the body that it inlines under the same types."""
        key = self.context, tuple(args), tuple(kws.items()), compiler_flags()
        if key not in self.typed:
            self.typed[key] = super().generic(args, kws)
        return self.typed[key]

    def _get_jit_decorator(self) -> Any:
        return _uncompiled


def _uncompiled(**options: Any) -> Callable[[FunctionType], Any]:
    """Decorator like `numba.njit`, of functions that are only asked for the types of their arguments."""

    def decorate(function: FunctionType) -> Any:
        dispatcher = numba.njit(**options)(function)

        def get_call_template(args: Any, kws: Any) -> Any:
            return _NoTemplate, *dispatcher._compiler.fold_argument_types(args, kws), {}

        dispatcher.get_call_template = get_call_template
        return dispatcher

    return decorate


class _NoTemplate(templates.AbstractTemplate):
    """Template without signatures: nobody looks at that of a function which is not compiled."""

    key = None

    def generic(self, args: Any, kws: Any) -> None:
        """No signature."""


class _ProtocolMethod(OverloadMethodTemplate):
    """Method template like that of `numba.extending.overload_method`, but for tuples of a protocol only.

    Numba's own would take the name from every NamedTuple of the process, fields of that name included.
    """

    _attr: str

    def _resolve(self, typ: Any, attr: str) -> Any:
        cls = typ.instance_class
        if attr == self._attr and not _classes.isdisjoint(cls.__mro__) and attr not in cls._fields:
            return super()._resolve(typ, attr) if hasattr(cls, attr) else None
        return None
