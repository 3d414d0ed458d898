"""Register tiles: products of a few rows of a dense X with as many columns as fit into a vector register.

BLAS copies X into another order for every product. If the other matrix has only a few columns, this costs more than the
product itself. Here the entries of X are read in place, once each, and a vector register holds `lanes` columns of the
other matrix. X is flat, with rows `stride` apart, in the precision of the other arrays or a lower one. The other arrays
are flat and row-major with `lanes` columns. In plain Python (``NUMBA_DISABLE_JIT=1``) the same functions use slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from lineal.core.jit import IS_PLAIN
from lineal.core.simd import FLAGS, element, pointer, splat, vector_at

#: Number of bytes of a vector: one register of AVX-512, two of AVX2.
BYTES = 64

#: Number of rows of a tile. Six sums take twelve AVX2 registers and leave four for the operands.
ROWS = 6


def lanes(dtype: Any) -> int:
    """Number of columns of a tile in this precision."""
    return BYTES // np.dtype(dtype).itemsize


def _rows_of(builder: Any, place: Any, first: Any, stride: Any, rows: int) -> list[Any]:
    """Pointers to the beginnings of the rows of a tile."""
    offsets = [builder.add(first, builder.mul(stride, ir.Constant(stride.type, row))) for row in range(rows)]
    return [builder.gep(place, [offset]) for offset in offsets]


def _make_dot(rows: int) -> Any:
    @intrinsic
    def tile_dot(typing: Any, X: Any, first: Any, stride: Any, start: Any, stop: Any, V: Any, out: Any):
        size = out.dtype.bitwidth // 8
        signature = types.void(X, types.uintp, types.uintp, types.uintp, types.uintp, V, out)

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            X_, first_, stride_, start_, stop_, V_, out_ = arguments
            vector = ir.VectorType(context.get_value_type(out.dtype), BYTES // size)
            width, one = ir.Constant(start_.type, vector.count), ir.Constant(start_.type, 1)
            places = _rows_of(builder, pointer(context, builder, X, X_), first_, stride_, rows)
            columns, target = pointer(context, builder, V, V_), pointer(context, builder, out, out_)
            zero = ir.Constant(vector, [0.0] * vector.count)
            totals = [cgutils.alloca_once_value(builder, zero) for _ in range(rows)]
            with cgutils.for_range_slice(builder, start_, stop_, one, start_.type) as (j, _):
                at = builder.mul(builder.sub(j, start_), width)
                v = builder.load(vector_at(builder, columns, at, vector), align=size)
                for place, total in zip(places, totals):
                    x = splat(builder, element(context, builder, X, place, j, out.dtype), vector)
                    product = builder.fmul(x, v, flags=FLAGS)
                    builder.store(builder.fadd(builder.load(total), product, flags=FLAGS), total)
            for row, total in enumerate(totals):
                at = ir.Constant(start_.type, row * vector.count)
                builder.store(builder.load(total), vector_at(builder, target, at, vector), align=size)
            return context.get_dummy_value()

        return signature, generate

    return tile_dot


def _make_add(rows: int) -> Any:
    @intrinsic
    def tile_add(typing: Any, X: Any, first: Any, stride: Any, start: Any, stop: Any, U: Any, at: Any, out: Any):
        size = out.dtype.bitwidth // 8
        signature = types.void(X, types.uintp, types.uintp, types.uintp, types.uintp, U, types.uintp, out)

        def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            X_, first_, stride_, start_, stop_, U_, at_, out_ = arguments
            vector = ir.VectorType(context.get_value_type(out.dtype), BYTES // size)
            width, one = ir.Constant(start_.type, vector.count), ir.Constant(start_.type, 1)
            places = _rows_of(builder, pointer(context, builder, X, X_), first_, stride_, rows)
            given, target = pointer(context, builder, U, U_), pointer(context, builder, out, out_)
            offsets = [builder.add(at_, ir.Constant(at_.type, row * vector.count)) for row in range(rows)]
            factors = [builder.load(vector_at(builder, given, offset, vector), align=size) for offset in offsets]
            with cgutils.for_range_slice(builder, start_, stop_, one, start_.type) as (j, _):
                place_out = vector_at(builder, target, builder.mul(builder.sub(j, start_), width), vector)
                total = builder.load(place_out, align=size)
                for place, u in zip(places, factors):
                    x = splat(builder, element(context, builder, X, place, j, out.dtype), vector)
                    total = builder.fadd(total, builder.fmul(x, u, flags=FLAGS), flags=FLAGS)
                builder.store(total, place_out, align=size)
            return context.get_dummy_value()

        return signature, generate

    return tile_add


def _part(X: Any, first: int, stride: int, start: int, stop: int, rows: int, dtype: Any) -> Any:
    """Columns start … stop − 1 of the rows of a tile."""
    begins = [first + row * stride for row in range(rows)]
    return np.stack([X[begin + start : begin + stop] for begin in begins]).astype(dtype)


def _plain_dot(rows: int) -> Callable[..., None]:
    def tile_dot(X: Any, first: int, stride: int, start: int, stop: int, V: Any, out: Any) -> None:
        columns = V.reshape(-1, lanes(out.dtype))[: stop - start]
        out.reshape(-1, lanes(out.dtype))[:rows] = _part(X, first, stride, start, stop, rows, out.dtype) @ columns

    return tile_dot


def _plain_add(rows: int) -> Callable[..., None]:
    def tile_add(X: Any, first: int, stride: int, start: int, stop: int, U: Any, at: int, out: Any) -> None:
        width = lanes(out.dtype)
        factors = U[at : at + rows * width].reshape(rows, width)
        part = _part(X, first, stride, start, stop, rows, out.dtype)
        out.reshape(-1, width)[: stop - start] += part.T @ factors

    return tile_add


_dot, _add = (_plain_dot, _plain_add) if IS_PLAIN else (_make_dot, _make_add)

#: tile_dot(X, first, stride, start, stop, V, out): out[r] = Σ_j X[first + r·stride + j] · V[j − start] over
#: start ≤ j < stop, for ROWS rows r; row_dot computes one row.
tile_dot, row_dot = _dot(ROWS), _dot(1)

#: tile_add(X, first, stride, start, stop, U, at, out): out[j − start] += Σ_r X[first + r·stride + j] · U[at + r·lanes],
#: over ROWS rows r, for start ≤ j < stop; row_add adds one row.
tile_add, row_add = _add(ROWS), _add(1)
