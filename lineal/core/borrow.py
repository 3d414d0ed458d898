"""Arrays without an owner, for kernels made of many small functions.

Numba counts references to an array with atomic additions wherever a function that was not inlined takes it: some
twenty cycles each, more than such a function may have to do. An array that owns nothing has nothing to count. Whoever
borrows one must keep the original for as long: an argument of the outermost kernel is kept by its caller.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN


@intrinsic
def _without_owner(typing: Any, array: Any) -> Any:
    if not isinstance(array, types.Array):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder, value=arguments[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), generate


def _as_it_is(array: Any) -> Any:
    return array


#: borrow(array): the same memory, not counted.
borrow: Any = _as_it_is if IS_PLAIN else _without_owner
