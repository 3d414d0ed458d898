"""Updates of eight columns at a time: sums of squared derivatives, rates and weights of the features of one example.

The cells of `many_columns` have a row per feature. Which rows an example touches is not known to the compiler, which
would test before every row whether its arrays overlap. Written as LLVM vectors, eight columns of all features stay in
registers (for the default power t = ½ only, whose square root and quotient are machine instructions). In plain Python
(``NUMBA_DISABLE_JIT=1``) the same functions work on slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN
from lineal.core.simd import FLAGS, element, pointer, splat, vector_at
from lineal.online.state import LARGEST_SUM, LEAST_SQUARE

#: Columns of a vector.
LANES = 8

_BYTES = 4  # vectors start at any float32


class _Lanes:
    """Builds loops over the features of an example, on `LANES` float32 of each."""

    def __init__(self, context: Any, builder: Any, types_given: Any, arguments: Any) -> None:
        scratch_type, _, cells_type, self.many_type, _, _ = types_given
        scratch, self.count, cells, self.many, self.width, self.at = arguments
        self.context, self.builder = context, builder
        self.kind: Any = ir.FloatType()
        self.vector: Any = ir.VectorType(self.kind, LANES)
        self.slots_type, self.slots = self.field(scratch_type, scratch, "slots")
        self.values_type, self.values = self.field(scratch_type, scratch, "values")
        self.rates = self.field(scratch_type, scratch, "rates")[1]
        self.cells = self.place(cells_type, cells)

    def of_columns(self, name: str) -> Any:
        """The place of a vector over columns."""
        return self.field(self.many_type, self.many, name)[1]

    def field(self, tuple_type: Any, values: Any, name: str) -> tuple[Any, Any]:
        """Type of an array in a NamedTuple, and the place of its first entry."""
        index = tuple_type.fields.index(name)
        array_type = tuple_type.types[index]
        return array_type, self.place(array_type, self.builder.extract_value(values, index))

    def number(self, value: Any) -> Any:
        return ir.Constant(self.vector, [float(value)] * LANES)

    def place(self, array_type: Any, array: Any) -> Any:
        return pointer(self.context, self.builder, array_type, array)

    def load(self, place: Any, offset: Any) -> Any:
        return self.builder.load(vector_at(self.builder, place, offset, self.vector), align=_BYTES)

    def store(self, value: Any, place: Any, offset: Any) -> None:
        self.builder.store(value, vector_at(self.builder, place, offset, self.vector), align=_BYTES)

    def row(self, p: Any, column: Any) -> Any:
        """Offset of a column in the row of feature p: its weights, then its sums."""
        slot = element(self.context, self.builder, self.slots_type, self.slots, p, types.uintp)
        stride = self.builder.add(self.width, self.width)
        return self.builder.add(self.builder.mul(slot, stride), column)

    def rate_at(self, p: Any) -> Any:
        """Offset of the rates of feature p."""
        return self.builder.add(self.builder.mul(p, self.width), self.at)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=FLAGS)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=FLAGS)

    def z(self, p: Any) -> Any:
        """z of feature p, in all lanes."""
        value = element(self.context, self.builder, self.values_type, self.values, p, types.float32)
        return splat(self.builder, value, self.vector)

    def features(self) -> Any:
        """A loop over the features."""
        zero, one = (ir.Constant(self.count.type, n) for n in (0, 1))
        return cgutils.for_range_slice(self.builder, zero, self.count, one, self.count.type)


@intrinsic
def _grow(typing: Any, scratch: Any, count: Any, cells: Any, many: Any, width: Any, at: Any):
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, sig.args, arguments)
        one_to_one = ir.FunctionType(lanes.vector, [lanes.vector])
        root = cgutils.get_or_insert_function(builder.module, one_to_one, f"llvm.sqrt.v{LANES}f32")
        square = lanes.load(lanes.of_columns("squares"), lanes.at)
        total_q = cgutils.alloca_once_value(builder, lanes.number(0.0))
        least, largest = lanes.number(LEAST_SQUARE), lanes.number(LARGEST_SUM)
        column = builder.add(lanes.width, lanes.at)
        with lanes.features() as (p, _):
            x = lanes.z(p)
            x = lanes.times(x, x)
            row = lanes.row(p, column)
            total = lanes.plus(lanes.load(lanes.cells, row), lanes.times(square, x))
            total = builder.select(builder.fcmp_ordered("<", total, largest), total, largest)
            lanes.store(total, lanes.cells, row)
            total = builder.select(builder.fcmp_ordered(">", total, least), total, least)
            rate = builder.fdiv(lanes.number(1.0), builder.call(root, [total]))
            lanes.store(rate, lanes.rates, lanes.rate_at(p))
            builder.store(lanes.plus(builder.load(total_q), lanes.times(x, rate)), total_q)
        lanes.store(builder.load(total_q), lanes.of_columns("q"), lanes.at)
        return context.get_dummy_value()

    return types.void(scratch, types.uintp, cells, many, types.uintp, types.uintp), generate


@intrinsic
def _advance(typing: Any, scratch: Any, count: Any, cells: Any, many: Any, width: Any, at: Any):
    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, sig.args, arguments)
        step = lanes.load(lanes.of_columns("steps"), lanes.at)
        with lanes.features() as (p, _):
            row = lanes.row(p, lanes.at)
            change = lanes.times(lanes.times(step, lanes.z(p)), lanes.load(lanes.rates, lanes.rate_at(p)))
            lanes.store(lanes.plus(lanes.load(lanes.cells, row), change), lanes.cells, row)
        return context.get_dummy_value()

    return types.void(scratch, types.uintp, cells, many, types.uintp, types.uintp), generate


def _plain_grow(scratch: Any, count: int, cells: Any, many: Any, width: int, at: int) -> None:
    width, at = int(width), int(at)  # int32 and uint64 make a float64
    lanes, z = slice(at, at + LANES), scratch.values
    many.q[lanes] = 0.0
    for p in range(count):
        row = int(scratch.slots[p]) * 2 * width + width + at
        total = np.minimum(cells[row : row + LANES] + many.squares[lanes] * z[p] ** 2, LARGEST_SUM)
        cells[row : row + LANES] = total
        rate = np.float32(1.0) / np.sqrt(np.maximum(total, LEAST_SQUARE))
        scratch.rates[p * width + at : p * width + at + LANES] = rate
        many.q[lanes] += z[p] ** 2 * rate


def _plain_advance(scratch: Any, count: int, cells: Any, many: Any, width: int, at: int) -> None:
    width, at = int(width), int(at)
    for p in range(count):
        row = int(scratch.slots[p]) * 2 * width + at
        rate = scratch.rates[p * width + at : p * width + at + LANES]
        cells[row : row + LANES] += many.steps[at : at + LANES] * scratch.values[p] * rate


#: grow(scratch, count, cells, many, width, at): for the columns at … at + 7, the sums of squared derivatives of the
#: example's features grow by many.squares·z²; their rates are 1/√sum, and many.q = Σ z²·rate.
grow: Any = _plain_grow if IS_PLAIN else _grow

#: advance(scratch, count, cells, many, width, at): the weights of these columns grow by many.steps·z·rate.
advance: Any = _plain_advance if IS_PLAIN else _advance
