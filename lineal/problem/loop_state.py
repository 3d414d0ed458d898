"""What changes in the loop of a solver, and its form in a file: plain JSON values, and arrays by name.

A class of such state derives from `LoopState` and names its attributes. These can be numbers, texts, arrays,
certificates, other `LoopState`s, and lists, tuples, deques and dicts of them. Everything else about the object (rows,
options, factorisations) is made again, in the usual way, before the state is restored.

An array that occurs twice is stored once and is one array again afterwards, because some loops ask whether two of their
arrays are the same.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lineal.problem.solution import Certificate

#: JSON values of a file, and its arrays by name.
Encoded = tuple[Any, dict[str, np.ndarray]]


class Later(NamedTuple):
    """Part of a state that costs a pass over the rows or a copy of them: it is made when a checkpoint is written.

    A loop that has such a part ends with a status that `Monitor.record` or `count` has just returned. If it ends
    otherwise, after it has changed what the part is made of, it declares that state lost first (`Monitor.lose`).
    """

    make: Callable[[], Any]


class LoopState:
    """Base of what changes in a loop; `state_names` names the attributes from which the loop can continue."""

    state_names: ClassVar[tuple[str, ...]] = ()

    def loop_state(self) -> dict[str, Any]:
        """The state by name. Containers are copied and arrays are not, so the loop must not change them in place.

        The exceptions are arrays that are changed between two calls of `Monitor.record` only if the loop does not end
        in between.
        """
        return {name: _copied(getattr(self, name)) for name in self.state_names}

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of `loop_state`; a ValueError where the state is not one of this object."""
        if set(state) != set(self.loop_state()):
            raise ValueError(f"{type(self).__name__} has other parts")
        for name in self.state_names:
            self.restore_part(name, state[name])

    def restore_part(self, name: str, value: Any) -> None:
        """Restore one of the attributes in `state_names`."""
        current = getattr(self, name)
        if isinstance(current, LoopState):
            current.restore(value)
        else:
            setattr(self, name, value)


def put(target: np.ndarray, saved: Any) -> None:
    """Restore an array in place, because others refer to it; a ValueError where the saved one has another shape."""
    if not isinstance(saved, np.ndarray) or saved.shape != target.shape or saved.dtype != target.dtype:
        raise ValueError("an array has another shape or type")
    target[...] = saved


def _copied(value: Any) -> Any:
    if isinstance(value, LoopState):
        return value.loop_state()
    if isinstance(value, deque):
        return deque(map(_copied, value), value.maxlen)
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return value


def encode(value: Any) -> Encoded:
    """JSON values and arrays of a state."""
    arrays: dict[int, tuple[str, np.ndarray]] = {}
    encoded = _encoded(value, arrays)
    return encoded, dict(arrays.values())


def _encoded(value: Any, arrays: dict[int, tuple[str, np.ndarray]]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Later):
        return _encoded(value.make(), arrays)
    if isinstance(value, np.ndarray):
        name, _ = arrays.setdefault(id(value), (f"a{len(arrays)}", value))
        return {"array": name}
    if isinstance(value, np.generic):
        return {"scalar": [value.dtype.str, _encoded(value.item(), arrays)]}
    if isinstance(value, Certificate):
        return {"certificate": [_encoded(one, arrays) for one in (value.kind, value.value, value.primal, value.dual)]}
    if isinstance(value, deque):
        return {"deque": [value.maxlen, [_encoded(one, arrays) for one in value]]}
    if type(value) is tuple:
        return {"tuple": [_encoded(one, arrays) for one in value]}
    if type(value) is list:
        return [_encoded(one, arrays) for one in value]
    if type(value) is dict and all(type(name) is str for name in value):
        return {"dict": {name: _encoded(one, arrays) for name, one in value.items()}}
    raise TypeError(f"a state cannot hold {type(value).__name__}")


def decode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of `encode`; a ValueError, LookupError or TypeError where the values are not those of a state."""
    if value is None or type(value) in (bool, int, str, float):
        return value
    if type(value) is list:
        return [decode(one, arrays) for one in value]
    ((kind, inner),) = value.items()
    if kind == "float":
        return float(inner)
    if kind == "array":
        return arrays[inner]
    if kind == "scalar":
        dtype = np.dtype(inner[0])
        if dtype.kind not in "biuf":
            raise ValueError(f"a scalar of type {dtype}")
        return dtype.type(decode(inner[1], arrays))
    if kind == "certificate":
        return Certificate(*(decode(one, arrays) for one in inner))
    if kind == "deque":
        return deque((decode(one, arrays) for one in inner[1]), inner[0])
    if kind == "tuple":
        return tuple(decode(one, arrays) for one in inner)
    if kind == "dict":
        return {name: decode(one, arrays) for name, one in inner.items()}
    raise ValueError(f"unknown kind of value {kind!r}")
