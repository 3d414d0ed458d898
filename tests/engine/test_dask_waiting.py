"""Who is named while a pass waits for workers, and when they are given up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")

from lineal.engine.dask import waiting
from lineal.engine.dask.waiting import Waiting


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_worker_that_takes_longer_than_the_others_is_named(clock):
    late = ["a", "b", "c"]
    one = Waiting(lambda: late, 0.0)
    clock.now += 4.0
    late[:] = ["b"]
    one.look()
    assert one.remark() == ""
    clock.now += 5.0
    assert one.remark() == "waiting for worker b for 9 s"
    late.clear()
    one.look()
    assert one.remark() == ""


def test_a_pass_that_takes_longer_than_those_before_names_all(clock):
    one = Waiting(lambda: list("abcde"), 2.0)
    clock.now += 3.9
    assert one.remark() == ""
    clock.now += 0.2
    assert one.remark() == "waiting for workers a, b, c and 2 more for 4 s"
    unknown = Waiting(lambda: ["a"], 0.0)
    clock.now += 59.0
    assert unknown.remark() == ""
    clock.now += 2.0
    assert unknown.remark() == "waiting for worker a for 61 s"


def test_workers_are_given_up_only_if_they_have_been_much_faster_before(clock):
    quick, long = Waiting(lambda: ["a"], 1.0), Waiting(lambda: ["a"], 45.0)
    clock.now += 61.0
    assert quick.is_hopeless(60.0)
    assert not long.is_hopeless(60.0)
    clock.now += 30.0
    assert long.is_hopeless(60.0)
