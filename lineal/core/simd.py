"""Vector instructions for kernels: register tiles for sparse products, an exponential, prefetching.

A register tile keeps a few columns of the result in vector registers during the loop over the non-zeros of a row.
Numba's own vectorisation would load and store these sums at every non-zero. Gather and scatter work on `width`
neighbouring columns of flat, row-major matrices, in the precision of their output, which is that of the other matrix or
higher. In plain Python (``NUMBA_DISABLE_JIT=1``) the same functions use slices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN

#: Widths of tiles, the largest first. A row of k columns is cut into tiles greedily.
WIDTHS = (16, 8, 4, 2, 1)

#: Fast-math flags that keep NaN and infinity meaningful.
FLAGS = ("reassoc", "contract", "nsz", "arcp")


def pointer(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Pointer to the data of an array."""
    return context.make_array(array_type)(context, builder, value=array).data


def vector_at(builder: Any, place: Any, offset: Any, vector: Any) -> Any:
    """Pointer to the vector of elements that begins at an offset."""
    return builder.bitcast(builder.gep(place, [offset]), vector.as_pointer())


def splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """Vector with the same number in all lanes."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), lanes)


def element(context: Any, builder: Any, array_type: Any, place: Any, index: Any, wanted: Any) -> Any:
    """Element of an array, converted to the wanted type."""
    value = builder.load(builder.gep(place, [index]))
    return context.cast(builder, value, array_type.dtype, wanted)


def _widened(builder: Any, value: Any, vector: Any) -> Any:
    return value if value.type == vector else builder.fpext(value, vector)


def _make_gather(width: int) -> Any:
    unrolled = 4 if width <= 2 else 1  # with one short sum, each addition would wait for the one before

    @intrinsic
    def gather(
        typing: Any, data: Any, indices: Any, start: Any, stop: Any, V: Any, k: Any, column: Any, out: Any, at: Any
    ):
        signature = types.void(data, indices, types.uintp, types.uintp, V, types.uintp, types.uintp, out, types.uintp)

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            data_, indices_, start_, stop_, V_, k_, column_, out_, at_ = arguments
            values = pointer(context, builder, data, data_)
            columns = pointer(context, builder, indices, indices_)
            matrix = pointer(context, builder, V, V_)
            vector, narrow = (ir.VectorType(context.get_value_type(array.dtype), width) for array in (out, V))
            totals = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * width)) for _ in range(unrolled)]

            def add(p: Any, total: Any) -> None:
                x = splat(builder, element(context, builder, data, values, p, out.dtype), vector)
                row = element(context, builder, indices, columns, p, types.uintp)
                offset = builder.add(builder.mul(row, k_), column_)
                v = builder.load(vector_at(builder, matrix, offset, narrow), align=V.dtype.bitwidth // 8)
                product = builder.fmul(x, _widened(builder, v, vector), flags=FLAGS)
                builder.store(builder.fadd(builder.load(total), product, flags=FLAGS), total)

            def number(value: int) -> Any:
                return ir.Constant(start_.type, value)

            whole = builder.and_(builder.sub(stop_, start_), number(-unrolled))
            middle = builder.add(start_, whole)
            with cgutils.for_range_slice(builder, start_, middle, number(unrolled), start_.type) as (p, _):
                for ahead, total in enumerate(totals):
                    add(builder.add(p, number(ahead)), total)
            with cgutils.for_range_slice(builder, middle, stop_, number(1), start_.type) as (p, _):
                add(p, totals[0])
            result = builder.load(totals[0])
            for total in totals[1:]:
                result = builder.fadd(result, builder.load(total), flags=FLAGS)
            target = vector_at(builder, pointer(context, builder, out, out_), at_, vector)
            builder.store(result, target, align=out.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return signature, generate

    return gather


def _make_scatter(width: int) -> Any:
    @intrinsic
    def scatter(
        typing: Any, data: Any, indices: Any, start: Any, stop: Any, U: Any, at: Any, out: Any, k: Any, column: Any
    ):
        signature = types.void(data, indices, types.uintp, types.uintp, U, types.uintp, out, types.uintp, types.uintp)

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            data_, indices_, start_, stop_, U_, at_, out_, k_, column_ = arguments
            values = pointer(context, builder, data, data_)
            columns = pointer(context, builder, indices, indices_)
            matrix = pointer(context, builder, out, out_)
            size = out.dtype.bitwidth // 8
            vector, narrow = (ir.VectorType(context.get_value_type(array.dtype), width) for array in (out, U))
            source = vector_at(builder, pointer(context, builder, U, U_), at_, narrow)
            u = _widened(builder, builder.load(source, align=U.dtype.bitwidth // 8), vector)
            with cgutils.for_range_slice(builder, start_, stop_, ir.Constant(start_.type, 1), start_.type) as (p, _):
                x = splat(builder, element(context, builder, data, values, p, out.dtype), vector)
                row = element(context, builder, indices, columns, p, types.uintp)
                target = vector_at(builder, matrix, builder.add(builder.mul(row, k_), column_), vector)
                product = builder.fmul(x, u, flags=FLAGS)
                builder.store(builder.fadd(builder.load(target, align=size), product, flags=FLAGS), target, align=size)
            return context.get_dummy_value()

        return signature, generate

    return scatter


def _plain_gather(width: int) -> Callable[..., None]:
    def gather(data: Any, indices: Any, start: int, stop: int, V: Any, k: int, column: int, out: Any, at: int) -> None:
        rows = V.reshape(-1, int(k))[indices[start:stop], column : column + width]
        out[at : at + width] = data[start:stop].astype(out.dtype) @ rows.astype(out.dtype)

    return gather


def _plain_scatter(width: int) -> Callable[..., None]:
    def scatter(data: Any, indices: Any, start: int, stop: int, U: Any, at: int, out: Any, k: int, column: int) -> None:
        matrix = out.reshape(-1, int(k))
        for p in range(start, stop):
            matrix[indices[p], column : column + width] += data[p] * U[at : at + width].astype(out.dtype)

    return scatter


_gather, _scatter = (_plain_gather, _plain_scatter) if IS_PLAIN else (_make_gather, _make_scatter)

#: gatherN(data, indices, start, stop, V, k, column, out, at):
#: out[at : at+N] = Σ_p data[p] · V[indices[p], column : column+N] over start ≤ p < stop.
gather16, gather8, gather4, gather2, gather1 = (_gather(width) for width in WIDTHS)

#: scatterN(data, indices, start, stop, U, at, out, k, column):
#: out[indices[p], column : column+N] += data[p] · U[at : at+N] over start ≤ p < stop.
scatter16, scatter8, scatter4, scatter2, scatter1 = (_scatter(width) for width in WIDTHS)


def _exp_terms(bits: int) -> list[float]:
    """Taylor coefficients of eˣ, as many as make a difference in this precision for |x| ≤ ½ log 2."""
    return [1.0 / math.factorial(n) for n in range(7 if bits == 32 else 14)]


@intrinsic
def _lane_exp(typing: Any, x: Any):
    if not isinstance(x, types.Float):
        return None
    signature = x(x)
    bits, fraction, bias, limit = (32, 23, 127, 87.0) if x.bitwidth == 32 else (64, 52, 1023, 708.0)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = context.get_value_type(x)
        whole = ir.IntType(bits)

        def number(value: float) -> Any:
            return ir.Constant(kind, value)

        (value,) = arguments
        value = builder.select(builder.fcmp_ordered(">", value, number(limit)), number(limit), value)
        value = builder.select(builder.fcmp_ordered("<", value, number(-limit)), number(-limit), value)
        floor = builder.module.declare_intrinsic("llvm.floor", [kind])
        turns = builder.call(floor, [builder.fadd(builder.fmul(value, number(1.0 / math.log(2.0))), number(0.5))])
        high = 0.693145751953125  # log 2 in few bits, so that its product with a small integer is exact
        rest = builder.fsub(value, builder.fmul(turns, number(high)))
        rest = builder.fsub(rest, builder.fmul(turns, number(1.42860682030941723212e-6)))
        result = number(0.0)
        for term in reversed(_exp_terms(bits)):
            result = builder.fadd(builder.fmul(result, rest, flags=("contract",)), number(term), flags=("contract",))
        exponent = builder.add(builder.fptosi(turns, whole), ir.Constant(whole, bias))
        power = builder.bitcast(builder.shl(exponent, ir.Constant(whole, fraction)), kind)
        return builder.fmul(result, power)

    return signature, generate


def _plain_exp(x: Any) -> Any:
    return np.exp(x)


#: lane_exp(x): eˣ in the precision of x, without branches, so that loops over it are vectorised. The relative error is
#: below 1e-6 in float32 and 5e-14 in float64. Arguments are clipped to ±87 in float32 and ±708 in float64.
lane_exp: Any = _plain_exp if IS_PLAIN else _lane_exp


@intrinsic
def _prefetch(typing: Any, array: Any, offset: Any):
    signature = types.void(array, types.uintp)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array_, offset_ = arguments
        place = builder.gep(pointer(context, builder, array, array_), [offset_])
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], ir.FunctionType(
            ir.VoidType(), [byte, word, word, word]))  # fmt: skip
        builder.call(call, [builder.bitcast(place, byte), *(ir.Constant(word, value) for value in (1, 3, 1))])
        return context.get_dummy_value()

    return signature, generate


def _plain_prefetch(array: Any, offset: Any) -> None:
    pass


#: prefetch(array, offset): start to load the cache line of an element of a contiguous array that is written soon.
prefetch: Any = _plain_prefetch if IS_PLAIN else _prefetch
