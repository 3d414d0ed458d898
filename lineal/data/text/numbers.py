"""Exact decimal-to-double conversion inside kernels: every number equals Python's ``float()`` of its text.

Three stages, each exact, each rarer than the one before:

1. Clinger (1990): a mantissa below 2⁵³ times or divided by a power of ten up to 10²² is one rounding.
2. Eisel & Lemire: one or two 64 × 64-bit products with a table of powers of five decide any mantissa of up to 19
   digits (Lemire, "Number parsing at a gigabyte per second", 2021; that no fallback is needed: Mushtak & Lemire,
   "Fast number parsing without fallback", 2023).
3. More than 19 digits: if the first 19 do not decide, big integers compare the text with the halfway point.

The text must be followed by at least one byte that cannot continue a number (readers guarantee a final newline).
All integers are uint64, constants included: Numba and NumPy turn a mix of uint64 and int64 into floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lineal.core.jit import kernel
from lineal.data.text.byte_words import U0, U1, U3, U8, U10, U32, U64, U, leading_digits, word_at

U9 = U(9)
ZERO_BYTE, DOT, PLUS, MINUS = U(48), U(46), U(43), U(45)
LOWER_CASE = U(32)  # ASCII: 'E' | 32 == 'e'
LETTER_E = U(101)
SEVEN = U(7)
LOW_32 = U(0xFFFFFFFF)
ALL_ONES = U(0xFFFFFFFFFFFFFFFF)

EXACT_POWERS = np.array([10.0**power for power in range(23)])
WHOLE_POWERS = np.array([10**power for power in range(8)], np.uint64)
MAX_EXACT_MANTISSA = U(1 << 53)
MAX_DIGITS = U(19)  # 10¹⁹ < 2⁶⁴
SMALLEST_POWER, LARGEST_POWER = -342, 308
MAX_EXPONENT = 100_000  # beyond it every mantissa in a text of sane length is 0 or infinity

MANTISSA_BITS = U(52)
HIDDEN_BIT = U(1 << 52)
CARRY_BIT = U(1 << 53)
INFINITE_EXPONENT = 2047
UNDECIDED_LOW_BITS = U(0x1FF)  # bits of the high word below the 55 that rounding needs

BIG_LIMBS = 192  # 32-bit limbs: room for 800 digits scaled by 10³⁴⁰ or 2¹⁰⁷⁵
BIG_DIGITS = 800  # no double or halfway point has more than 768 significant digits


def _powers_of_five() -> np.ndarray:
    """The leading 128 bits (high, low) of 5^q for q = −342 … 308, rounded as Lemire's proof requires."""
    rows = []
    for q in range(SMALLEST_POWER, LARGEST_POWER + 1):
        if q >= 0:
            bits = 5**q << 127
            bits >>= bits.bit_length() - 128
        else:
            length = (5**-q - 1).bit_length()
            bits = (1 << (length + 127 if q >= -27 else 2 * length + 128)) // 5**-q + 1
            bits >>= max(0, bits.bit_length() - 128)
        rows.append((bits >> 64, bits & 0xFFFFFFFFFFFFFFFF))
    return np.array(rows, dtype=np.uint64)


POWERS_OF_FIVE = _powers_of_five()


@kernel
def multiply_128(a: Any, b: Any) -> Any:
    """The product of two 64-bit integers as (high, low)."""
    a_high, a_low, b_high, b_low = a >> U32, a & LOW_32, b >> U32, b & LOW_32
    low = a_low * b_low
    middle = a_high * b_low + (low >> U32)
    other = a_low * b_high + (middle & LOW_32)
    return a_high * b_high + (middle >> U32) + (other >> U32), (other << U32) | (low & LOW_32)


@kernel
def leading_zeros(x: Any) -> Any:
    """Number of zero bits above the highest one of x > 0."""
    count = U0
    for step in (U(32), U(16), U(8), U(4), U(2), U(1)):
        if x >> (U64 - step) == U0:
            x = x << step
            count += step
    return count


@kernel
def eisel_lemire(mantissa: Any, power: Any) -> Any:
    """The bits of the double nearest to mantissa · 10^power (ties to even), for any 64-bit mantissa."""
    infinity = U(INFINITE_EXPONENT) << MANTISSA_BITS
    if mantissa == U0 or power < SMALLEST_POWER:
        return U0
    if power > LARGEST_POWER:
        return infinity
    zeros = leading_zeros(mantissa)
    mantissa = mantissa << zeros
    row = power - SMALLEST_POWER
    high, low = multiply_128(mantissa, POWERS_OF_FIVE[row, 0])
    if high & UNDECIDED_LOW_BITS == UNDECIDED_LOW_BITS:
        more, _ = multiply_128(mantissa, POWERS_OF_FIVE[row, 1])
        low += more
        if more > low:
            high += U1
    top = high >> U(63)
    shift = top + U9
    bits = high >> shift  # 54 bits: the mantissa and one for rounding
    exponent = (((152170 + 65536) * power) >> 16) + 63 + 1023 + np.int64(top) - np.int64(zeros)
    if exponent <= 0:  # subnormal
        if exponent <= -63:
            return U0
        bits >>= U(1 - exponent)
        bits = (bits + (bits & U1)) >> U1
        return bits  # a carry into the hidden bit is the smallest normal number
    if low <= U1 and -4 <= power <= 23 and bits & U3 == U1 and bits << shift == high:
        bits &= ~U1  # exactly halfway: to even, not up
    bits = (bits + (bits & U1)) >> U1
    if bits >= CARRY_BIT:
        bits = HIDDEN_BIT
        exponent += 1
    if exponent >= INFINITE_EXPONENT:
        return infinity
    return (bits & ~HIDDEN_BIT) | (U(exponent) << MANTISSA_BITS)


@kernel
def big_multiply_add(big: Any, factor: Any, addend: Any) -> None:
    """Set big = big · factor + addend. big[0] is the number of its 32-bit limbs, which follow, lowest first."""
    carry = addend
    length = np.int64(big[0])
    for limb in range(1, length + 1):
        carry += big[limb] * factor
        big[limb] = carry & LOW_32
        carry >>= U32
    if carry != U0:
        big[length + 1] = carry
        big[0] = U(length + 1)


@kernel
def big_scale(big: Any, factor: Any, times: int) -> None:
    """Set big = big · factor^times."""
    for _ in range(times):
        big_multiply_add(big, factor, U0)


@kernel
def is_above_halfway(data: Any, start: Any, stop: Any, power: int, bits: Any) -> bool:
    """Whether the digits in data[start:stop] · 10^power round up from the double `bits` to the next one.

    Compares with the halfway point (2m + 1) · 2^(e−1) exactly; a tie goes to the even mantissa. `power` is the
    exponent of the last digit in the span.
    """
    text, halfway = np.zeros(BIG_LIMBS, np.uint64), np.zeros(BIG_LIMBS, np.uint64)
    digits = 0
    p = start
    rest = False
    while p < stop:
        digit = U(data[p]) - ZERO_BYTE
        p += U1
        if digit > U9:
            continue  # the decimal point
        if digits < BIG_DIGITS:
            big_multiply_add(text, U10, digit)
            digits += 1 if text[0] > U0 else 0
        else:
            power += 1
            rest = rest or digit != U0
    exponent: Any = np.int64(bits >> MANTISSA_BITS)
    mantissa = bits & ~(ALL_ONES << MANTISSA_BITS)
    if exponent > 0:
        mantissa |= HIDDEN_BIT
    big_multiply_add(halfway, U1, (mantissa << U1 | U1) >> U32)
    big_multiply_add(halfway, U(1 << 32), (mantissa << U1 | U1) & LOW_32)
    binary_power = max(exponent, 1) - 1076
    big_scale(text, U10, max(power, 0))
    big_scale(halfway, U10, max(-power, 0))
    big_scale(halfway, U(2), max(binary_power, 0))
    big_scale(text, U(2), max(-binary_power, 0))
    for limb in range(BIG_LIMBS - 1, 0, -1):
        if text[limb] != halfway[limb]:
            return text[limb] > halfway[limb]
    return rest or mantissa & U1 == U1


@kernel
def long_number(data: Any, start: Any, stop: Any, power: int) -> Any:
    """The bits of a number of more than 19 digits, from its span and the exponent of its last digit."""
    mantissa, digits, dropped, inexact = U0, U0, 0, False
    p = start
    while p < stop:
        digit = U(data[p]) - ZERO_BYTE
        p += U1
        if digit > U9:
            continue
        if digits < MAX_DIGITS:
            mantissa = mantissa * U10 + digit
            digits += U1 if mantissa != U0 else U0
        else:
            dropped += 1
            inexact = inexact or digit != U0
    bits = eisel_lemire(mantissa, power + dropped)
    if (
        inexact
        and bits != eisel_lemire(mantissa + U1, power + dropped)
        and is_above_halfway(data, start, stop, power, bits)
    ):
        bits += U1
    return bits


@kernel(forceinline=True)
def append_digits(data: Any, p: Any, mantissa: Any) -> Any:
    """Append the digits at p to a mantissa: (new mantissa, position after them)."""
    digit = U(data[p]) - ZERO_BYTE
    while digit <= U9:
        mantissa = mantissa * U10 + digit
        p += U1
        digit = U(data[p]) - ZERO_BYTE
    return mantissa, p


@kernel(fastmath=frozenset())  # a division that became a multiplication by the reciprocal would round twice
def any_number(data: Any, start: Any) -> Any:
    """Parse a number of any form, byte by byte; otherwise as `parse_number`."""
    p = start
    sign = U(data[p])
    if sign in (MINUS, PLUS):
        p += U1
    first = p
    mantissa, p = append_digits(data, p, U0)
    digits = p - first
    power: Any = 0
    if U(data[p]) == DOT:
        p += U1
        point = p
        mantissa, p = append_digits(data, p, mantissa)
        digits += p - point
        power = -np.int64(p - point)
    if digits == U0:
        return 0.0, start
    last = p
    if U(data[p]) | LOWER_CASE == LETTER_E:
        p += U1
        exponent_sign = U(data[p])
        if exponent_sign in (MINUS, PLUS):
            p += U1
        digit = U(data[p]) - ZERO_BYTE
        if digit > U9:
            return 0.0, start
        exponent: Any = 0
        while digit <= U9:
            exponent = min(exponent * 10 + np.int64(digit), MAX_EXPONENT)
            p += U1
            digit = U(data[p]) - ZERO_BYTE
        power += -exponent if exponent_sign == MINUS else exponent

    if digits <= MAX_DIGITS and mantissa <= MAX_EXACT_MANTISSA and -22 <= power <= 22:
        value = float(mantissa)
        value = value / EXACT_POWERS[-power] if power < 0 else value * EXACT_POWERS[power]
    elif digits <= MAX_DIGITS:
        value = U(eisel_lemire(mantissa, power)).view(np.float64)
    else:
        value = U(long_number(data, first, last, power)).view(np.float64)
    return (-value if sign == MINUS else value), p


@kernel(fastmath=frozenset(), forceinline=True)
def parse_number(data: Any, start: Any) -> Any:
    """Parse ``[+-]digits[.digits][e[+-]digits]`` at `start`: (value, position after it), or position `start` if none.

    The value is infinite if the number is too large for a double. The usual numbers, with up to seven digits before the
    point and as many after it, are parsed here, eight bytes at a time; such a mantissa is exact.
    """
    sign = U(data[start])
    first = start + U1 if sign == MINUS else start
    digits, mantissa = leading_digits(word_at(data, first))
    p = first + digits
    decimals, c = U0, U(data[p])
    if c == DOT:
        decimals, fraction = leading_digits(word_at(data, p + U1))
        mantissa = mantissa * WHOLE_POWERS[decimals & SEVEN] + fraction
        p += U1 + decimals
        c = U(data[p])
    if digits + decimals == U0 or digits == U8 or decimals == U8 or c | LOWER_CASE == LETTER_E:
        return any_number(data, start)
    value = np.float64(np.int64(mantissa)) / EXACT_POWERS[decimals]
    return (-value if sign == MINUS else value), p
