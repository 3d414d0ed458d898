"""Scalar maths, the seeded generator, threads, and the method protocol."""

from __future__ import annotations

import math
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from lineal.core import maths, rng, threads
from lineal.core.jit import kernel
from lineal.core.protocol import protocol
from lineal.core.simd import lane_exp
from lineal.errors import OptionError

pytestmark = pytest.mark.core

ANY = st.floats(-1e15, 1e15)


@given(ANY)
@settings(deadline=None)
def test_log1p_exp_and_sigmoid(z):
    assert maths.log1p_exp(z) == pytest.approx(float(np.logaddexp(0.0, z)), rel=1e-14)
    assert maths.sigmoid(z) == pytest.approx(float(special.expit(z)), rel=1e-14)


@given(st.lists(st.floats(-800, 800), min_size=1, max_size=6))
@settings(deadline=None)
def test_softmax(values):
    z = np.array(values)
    p = np.empty_like(z)
    top = maths.softmax_into(z, p)
    assert top == pytest.approx(float(special.logsumexp(z)), rel=1e-13, abs=1e-13)
    np.testing.assert_allclose(p, special.softmax(z), rtol=1e-12, atol=1e-300)


def test_softmax_of_float32_is_computed_in_float64():
    z = np.array([0.1, 0.2, 0.3], dtype=np.float32)
    p = np.empty(3)
    maths.softmax_into(z, p)
    np.testing.assert_allclose(p, special.softmax(z.astype(np.float64)), rtol=1e-15)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(0.01, 50))
@settings(deadline=None)
def test_projection_onto_the_simplex(values, radius):
    v = np.array(values)
    out = np.empty_like(v)
    maths.project_simplex(v, radius, out)
    assert out.min() >= 0
    assert out.sum() == pytest.approx(radius, rel=1e-9, abs=1e-9)
    # optimality: v − out is constant on the support and smaller off it
    excess = v - out
    assert np.ptp(excess[out > 1e-12]) <= 1e-9 * (1 + np.abs(v).max())
    assert np.all(excess[out <= 1e-12] <= excess[out > 1e-12].max() + 1e-9 * (1 + np.abs(v).max()))


def test_generator_gives_the_published_sequence():
    """SplitMix64 from state 1234567: the reference implementation's first numbers."""
    state = np.array([1234567], dtype=np.uint64)
    found = [int(rng.next_u64(state)) for _ in range(5)]
    assert found == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_generator_is_the_same_everywhere():
    """Fixed numbers: a change here breaks every user's seeds."""
    state = rng.generator(7, stream=2)
    items = np.arange(8)
    rng.shuffle(state, items)
    first = [int(rng.next_below(state, 1000)) for _ in range(4)]
    again = rng.generator(7, stream=2)
    same = np.arange(8)
    rng.shuffle(again, same)
    assert items.tolist() == same.tolist()
    assert sorted(items.tolist()) == list(range(8))
    assert first == [int(rng.next_below(again, 1000)) for _ in range(4)]
    other = rng.generator(7, stream=3)
    assert int(rng.next_u64(other)) != int(rng.next_u64(rng.generator(7, stream=2)))


def test_uniform_numbers_are_uniform():
    out = np.empty(4000)
    rng.fill_uniform(rng.generator(1), out)
    assert out.min() >= 0
    assert out.max() < 1
    counts = np.histogram(out, bins=8, range=(0, 1))[0]
    assert ((counts - 500) ** 2 / 500).sum() < 30  # χ² with 7 degrees of freedom
    below = np.array([rng.next_below(rng.generator(s), 3) for s in range(3000)])
    assert np.all(np.abs(np.bincount(below, minlength=3) - 1000) < 150)


def test_threads_keep_the_order_and_the_errors():
    tasks = [lambda i=i: i * i for i in range(20)]
    assert threads.run(tasks, 3) == threads.run(tasks, 1) == [i * i for i in range(20)]

    def fail():
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        threads.run([fail, fail], 2)


def test_tasks_of_tasks_run_though_all_threads_are_taken():
    inner = [lambda i=i: i for i in range(4)]
    outer = [lambda i=i: i + sum(threads.run(inner, 3)) for i in range(6)]
    assert threads.run(outer, 3) == [i + 6 for i in range(6)]


def test_an_error_waits_for_what_has_begun():
    done, begun = [], threading.Event()

    def slow():
        begun.set()
        time.sleep(0.2)
        done.append(True)

    def fail():
        assert begun.wait(10)
        raise ValueError("inside")

    for tasks in ([fail, slow], [slow, fail]):
        done.clear()
        begun.clear()
        with pytest.raises(ValueError, match="inside"):
            threads.run(tasks, 2)
        assert done == [True]


def test_largest_and_live_rows():
    rng_ = np.random.default_rng(0)
    for k in (1, 2, 3, 4, 5, 11):
        x = rng_.normal(size=20)
        assert maths.largest(x, np.uintp(k)) == x[:k].max()
    W = np.zeros((4, 3), np.float32)
    W[1, 2] = W[3, 0] = -1e-30
    assert maths.count_nonzero_rows(W) == 2


def test_ranges_cover_once():
    for length in (0, 1, 5, 17):
        for pieces in (1, 2, 7):
            covered = [i for start, stop in threads.ranges(length, pieces) for i in range(start, stop)]
            assert covered == list(range(length))


def test_thread_count():
    assert threads.thread_count(3) == 3
    assert threads.thread_count(None) == threads.thread_count(-1) >= 1
    with pytest.raises(OptionError, match="n_jobs=0"):
        threads.thread_count(0)


@protocol
class Doubling(NamedTuple):
    factor: float

    def apply_twice(self, x):
        """Uses another method of the same class."""
        return self.apply_once(self.apply_once(x))

    def apply_once(self, x):
        return self.factor * x


@protocol
class Shifting(NamedTuple):
    factor: float

    def apply_twice(self, x):
        return x + 2 * self.factor

    def apply_once(self, x):
        return x + self.factor


@kernel
def call(thing, x):
    return thing.apply_twice(x)


def test_kernels_call_the_methods_of_what_they_are_given():
    assert call(Doubling(3.0), 2.0) == 18.0
    assert call(Shifting(3.0), 2.0) == 8.0


class Foreign(NamedTuple):
    """Somebody else's tuple, with fields that are methods of a protocol elsewhere."""

    apply_once: float
    apply_twice: float


@protocol
class Fielded(NamedTuple):
    """A protocol's tuple may have such a field, too."""

    apply_once: float

    def apply_twice(self, x):
        return self.apply_once * x


@kernel
def read_fields(foreign, fielded):
    return foreign.apply_once + 10 * foreign.apply_twice + fielded.apply_twice(100.0)


def test_fields_of_the_same_name_stay_fields():
    assert read_fields(Foreign(1.0, 2.0), Fielded(3.0)) == 321.0


def test_a_method_has_one_signature():
    with pytest.raises(TypeError, match="apply_once"):

        @protocol
        class Wrong(NamedTuple):
            factor: float

            def apply_once(self, y):
                return y


def test_x_log_x():
    assert maths.x_log_x(0.0) == 0.0
    assert maths.x_log_x(0.5) == pytest.approx(0.5 * math.log(0.5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lane_exp_is_exp(dtype):
    x = np.linspace(-80, 80, 4001).astype(dtype)
    out = np.empty_like(x)
    _lane_exps(x, out)
    np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=1e-6 if dtype == np.float32 else 5e-14)


@kernel
def _lane_exps(x, out):
    for i in range(x.shape[0]):
        out[i] = lane_exp(x[i])


def test_helpers_of_an_interrupted_run_begin_nothing_new():
    """Their next task, and the compilation that they wait for, would make Ctrl-C wait."""
    began, ready = [], threading.Event()

    def first():
        ready.wait(60)
        raise KeyboardInterrupt

    def helper():
        began.append("helper")
        ready.set()
        for _ in range(6000):  # a minute, of which it needs an instant
            threads.raise_if_cancelled()
            time.sleep(0.01)
        began.append("compiled")

    with pytest.raises(KeyboardInterrupt):
        threads.run([first, helper, *[lambda: began.append("later")] * 3], 2)
    assert began == ["helper"]
    threads.raise_if_cancelled()  # this thread helps nobody
