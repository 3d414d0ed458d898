"""The record of kernels that fits need, and what it says about the kernels to come."""

from __future__ import annotations

import inspect
import json
import random

import numpy as np
import pytest
from numba import types

import lineal
from lineal.cli import common_rows
from lineal.core import forecast, jit
from lineal.core.forecast import Kernel, Records
from lineal.losses import get
from lineal.problem.targets import OneLabel

ADVICE = "run  python wheels/record.py"


def fits_of(*fits):
    return Records([Kernel("module", str(number), [], 0.5) for number in range(12)], list(fits), {})


@pytest.mark.parametrize(
    "value",
    [1, 1.5, True, np.float32(2), np.uint8(3), np.zeros(3), np.zeros((2, 2), np.float32, "F"), np.zeros(4)[::2],
     (1, 2.0), (1, 2), get("softmax"), OneLabel(np.zeros(3, np.int32)), (get("logistic"), (np.zeros(3), 1))],
    ids=str,
)  # fmt: skip
def test_types_survive_their_spelling(value):
    import numba

    of_argument = numba.typeof(value)
    spelling = json.loads(json.dumps(forecast.spelled(of_argument)))
    assert forecast.type_of(spelling) == of_argument


def test_read_only_and_unaligned_arrays_have_their_own_spelling():
    plain = types.Array(types.float64, 1, "C")
    others = [plain.copy(readonly=True), types.Array(types.float64, 1, "C", aligned=False)]
    for other in others:
        assert forecast.spelled(other) != forecast.spelled(plain)
        assert forecast.type_of(forecast.spelled(other)) == other


@pytest.mark.parametrize("odd", [types.unicode_type, types.Omitted(1), types.complex128, types.literal(3)], ids=str)
def test_other_types_have_no_spelling(odd):
    with pytest.raises(ValueError, match="no spelling"):
        forecast.spelled(odd)
    assert Records([], [], {}).number_of("module", "name", (odd,)) is None


def test_the_first_kernel_lets_expect_what_most_fits_with_it_need_and_the_last_of_that_first():
    records = fits_of((0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 5, 4), (9, 8, 7))
    seen = records.forecast([], 0)
    assert (seen.position, seen.total) == (1, 4)
    assert seen.coming == [1, 4, 2]  # 3 and 5 are in one of three fits
    assert records.forecast([9], 8) == (2, 3, [7], 0.5)
    assert records.forecast([0, 1], 6) is None


def test_fits_count_whose_earlier_kernels_were_needed():
    records = fits_of((0, 1, 2, 3), (5, 6, 2, 7))
    assert records.forecast([0, 1], 2).coming == [3]
    assert records.forecast([5, 6], 2).coming == [7]
    assert set(records.forecast([], 2).coming) == {0, 1, 3, 5, 6, 7}
    # Of an earlier fit with the same beginning all has been needed; the other kernels are those of this fit.
    assert records.forecast([0, 1, 2, 3, 5, 6], 7) == (4, 4, [], 0.0)


def test_no_position_is_beyond_the_total():
    draw = random.Random(0)
    for _ in range(300):
        fits = {tuple(draw.sample(range(12), draw.randint(1, 9))) for _ in range(draw.randint(1, 8))}
        before = draw.sample(range(12), draw.randint(0, 8))
        now = draw.choice([one for one in range(12) if one not in before])
        seen = fits_of(*fits).forecast(before, now)
        if seen is not None:
            assert 1 <= seen.position <= seen.total
            assert not {*before, now} & set(seen.coming)


def test_a_written_file_says_the_same(tmp_path):
    first = Kernel("a", "f", ["int64", ["array", "float64", 1, "C", True, True]], 1.5)
    second, third = Kernel("a", "g", ["int64"]), Kernel("b", "f", [])
    forecast.write([[first, second], [first, third], [first, second]], tmp_path / "file.json")
    records = forecast.records(tmp_path / "file.json")
    assert records.kernels == [first, second, third]
    assert records.fits == [(0, 1), (0, 2)]
    assert records.number_of("a", "f", (types.int64, types.Array(types.float64, 1, "C"))) == 0
    assert records.number_of("a", "f", (types.int32, types.Array(types.float64, 1, "C"))) is None


@pytest.mark.parametrize("content", [None, "", "{"])
def test_without_the_file_nothing_is_expected(tmp_path, content):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    records = forecast.records(path)
    assert records.number_of("a", "f", ()) is None
    assert records.forecast([], 0) is None


def test_the_recorded_kernels_are_those_of_the_package():
    """A kernel that was renamed, or takes another number of arguments, or a tuple with other fields."""
    kernels = forecast.records().kernels
    assert len(kernels) > 100
    for module, name, arguments, _ in kernels:
        try:
            dispatcher = forecast.found(module, name)
            for argument in arguments:
                check_fields(argument)
        except (ImportError, KeyError, AttributeError) as error:
            pytest.fail(f"{module}.{name} is recorded, but is not there: {error!r}; {ADVICE}")
        function = dispatcher if jit.IS_PLAIN else dispatcher.py_func
        assert len(inspect.signature(function).parameters) == len(arguments), f"{module}.{name}: {ADVICE}"


def check_fields(spelling):
    one = forecast.type_of(spelling)
    if isinstance(one, types.NamedTuple | types.NamedUniTuple):
        assert len(one.instance_class._fields) == len(one.types), f"{spelling[0]}: {ADVICE}"
    if isinstance(spelling, list) and spelling[0] != "array":
        for part in spelling[1:]:
            check_fields(part)


@pytest.mark.skipif(jit.IS_PLAIN, reason="nothing is compiled")
def test_a_common_fit_is_recorded():
    before = len(jit.needed)
    X, y = common_rows.rows("csr", "float64", common_rows.NARROW), common_rows.labels(240, 3)
    lineal.LinearClassifier().fit(X, y)
    records = forecast.records()
    needed = jit.needed[before:]  # what no other test has needed before
    missing = [one[:2] for one in needed if records.number_of(*one) is None]
    assert missing == [], ADVICE
