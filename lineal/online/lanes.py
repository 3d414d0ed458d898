"""Updates of eight columns at a time: sums of squared slopes, rates and weights of the features of one example.

The table of `online_many` has a row a feature; which rows an example touches is not known to the compiler, which would
test before every row whether its arrays overlap. Written as LLVM vectors, eight columns of all features stream by in
registers (with AdaGrad's usual power t = ½ only, whose root and quotient are instructions). In plain Python
(``NUMBA_DISABLE_JIT=1``) the same functions are slices.
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

    def __init__(self, context: Any, builder: Any, stride: Any) -> None:
        self.context, self.builder, self.stride = context, builder, stride
        self.kind: Any = ir.FloatType()
        self.vector: Any = ir.VectorType(self.kind, LANES)

    def number(self, value: Any) -> Any:
        return ir.Constant(self.vector, [float(value)] * LANES)

    def place(self, array_type: Any, array: Any) -> Any:
        return pointer(self.context, self.builder, array_type, array)

    def load(self, place: Any, offset: Any) -> Any:
        return self.builder.load(vector_at(self.builder, place, offset, self.vector), align=_BYTES)

    def store(self, value: Any, place: Any, offset: Any) -> None:
        self.builder.store(value, vector_at(self.builder, place, offset, self.vector), align=_BYTES)

    def row(self, slots_type: Any, slots: Any, p: Any, column: Any) -> Any:
        """Offset of a column in the row of feature p."""
        slot = element(self.context, self.builder, slots_type, slots, p, types.uintp)
        return self.builder.add(self.builder.mul(slot, self.stride), column)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=FLAGS)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=FLAGS)

    def everywhere(self, values_type: Any, values: Any, p: Any) -> Any:
        value = element(self.context, self.builder, values_type, values, p, types.float32)
        return splat(self.builder, value, self.vector)

    def features(self, count: Any) -> Any:
        zero, one = (ir.Constant(count.type, n) for n in (0, 1))
        return cgutils.for_range_slice(self.builder, zero, count, one, count.type)


@intrinsic
def _grow(typing: Any, slots: Any, z: Any, count: Any, table: Any, stride: Any, column: Any, squares: Any, q: Any,
          rates: Any, width: Any, at: Any):  # fmt: skip
    size = types.uintp
    signature = types.void(slots, z, size, table, size, size, squares, q, rates, size, size)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        slots_, z_, count_, table_, stride_, column_, squares_, q_, rates_, width_, at_ = arguments
        lanes = _Lanes(context, builder, stride_)
        one_to_one = ir.FunctionType(lanes.vector, [lanes.vector])
        root = cgutils.get_or_insert_function(builder.module, one_to_one, f"llvm.sqrt.v{LANES}f32")
        features, values, matrix = lanes.place(slots, slots_), lanes.place(z, z_), lanes.place(table, table_)
        made = lanes.place(rates, rates_)
        square = lanes.load(lanes.place(squares, squares_), at_)
        total_q = cgutils.alloca_once_value(builder, lanes.number(0.0))
        least, largest = lanes.number(LEAST_SQUARE), lanes.number(LARGEST_SUM)
        with lanes.features(count_) as (p, _):
            x = lanes.everywhere(z, values, p)
            x = lanes.times(x, x)
            row = lanes.row(slots, features, p, column_)
            total = lanes.plus(lanes.load(matrix, row), lanes.times(square, x))
            total = builder.select(builder.fcmp_ordered("<", total, largest), total, largest)
            lanes.store(total, matrix, row)
            total = builder.select(builder.fcmp_ordered(">", total, least), total, least)
            rate = builder.fdiv(lanes.number(1.0), builder.call(root, [total]))
            lanes.store(rate, made, builder.add(builder.mul(p, width_), at_))
            builder.store(lanes.plus(builder.load(total_q), lanes.times(x, rate)), total_q)
        lanes.store(builder.load(total_q), lanes.place(q, q_), at_)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _advance(typing: Any, slots: Any, z: Any, count: Any, table: Any, stride: Any, steps: Any, rates: Any, width: Any,
             at: Any):  # fmt: skip
    size = types.uintp
    signature = types.void(slots, z, size, table, size, steps, rates, size, size)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        slots_, z_, count_, table_, stride_, steps_, rates_, width_, at_ = arguments
        lanes = _Lanes(context, builder, stride_)
        features, values, matrix = lanes.place(slots, slots_), lanes.place(z, z_), lanes.place(table, table_)
        made = lanes.place(rates, rates_)
        step = lanes.load(lanes.place(steps, steps_), at_)
        with lanes.features(count_) as (p, _):
            row = lanes.row(slots, features, p, at_)
            rate = lanes.load(made, builder.add(builder.mul(p, width_), at_))
            change = lanes.times(lanes.times(step, lanes.everywhere(z, values, p)), rate)
            lanes.store(lanes.plus(lanes.load(matrix, row), change), matrix, row)
        return context.get_dummy_value()

    return signature, generate


def _plain_grow(slots: Any, z: Any, count: int, table: Any, stride: int, column: int, squares: Any, q: Any, rates: Any,
                width: int, at: int) -> None:  # fmt: skip
    stride, column, width, at = int(stride), int(column), int(width), int(at)  # int32 and uint64 make a float64
    here = slice(at, at + LANES)
    q[here] = 0.0
    for p in range(count):
        row = int(slots[p]) * stride + column
        total = np.minimum(table[row : row + LANES] + squares[here] * z[p] ** 2, LARGEST_SUM)
        table[row : row + LANES] = total
        rate = np.float32(1.0) / np.sqrt(np.maximum(total, LEAST_SQUARE))
        rates[p * width + at : p * width + at + LANES] = rate
        q[here] += z[p] ** 2 * rate


def _plain_advance(slots: Any, z: Any, count: int, table: Any, stride: int, steps: Any, rates: Any, width: int,
                   at: int) -> None:  # fmt: skip
    stride, width, at = int(stride), int(width), int(at)
    for p in range(count):
        row = int(slots[p]) * stride + at
        table[row : row + LANES] += steps[at : at + LANES] * z[p] * rates[p * width + at : p * width + at + LANES]


#: grow(slots, z, count, table, stride, column, squares, q, rates, width, at), for the columns at … at + 7: the sums of
#: squared slopes, which begin at `column` of a row, grow by squares·z²; their rates are 1/√sum, and q = Σ z²·rate.
grow: Any = _plain_grow if IS_PLAIN else _grow

#: advance(slots, z, count, table, stride, steps, rates, width, at): the weights of these columns grow by steps·z·rate.
advance: Any = _plain_advance if IS_PLAIN else _advance
