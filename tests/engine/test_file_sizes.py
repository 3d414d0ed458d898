"""Blocks and shards of files: functions of the files and the options, not of the process or the machine."""

from __future__ import annotations

import pytest
from file_rows import engine_of, problem_in, write_files
from objectives import telling_rows

from lineal.engine import file as file_engine
from lineal.engine import file_shards
from lineal.engine.file_sizes import USUAL_BYTES, planned_bytes
from lineal.errors import DataError
from lineal.linear.options import TrainOptions
from lineal.system import memory


def small_blocks(monkeypatch, blocks, shards):
    """Let blocks and shards be these parts of what sizes are made for."""
    monkeypatch.setattr(file_engine, "LEAST_BLOCK", 1)
    monkeypatch.setattr(file_engine, "BLOCKS_PER_BUDGET", blocks)
    monkeypatch.setattr(file_shards, "SHARDS_PER_BUDGET", shards)


def partition_of(paths, budget, threads):
    """All that decides which rows are added up, loaded or fitted together."""
    engine = engine_of(problem_in(paths, TrainOptions(loss="softmax", n_jobs=threads), budget))
    shards = [engine.shards(count, seed=3).loads for count in (None, 20)]
    return engine.spans, engine.load, engine.runs(16), engine._larger(200), shards


@pytest.mark.parametrize(("budget", "blocks"), [(600_000_000, 1 << 17), (None, 1 << 21)])
def test_blocks_and_shards_do_not_depend_on_the_process(tmp_path, monkeypatch, budget, blocks):
    X, y = telling_rows(0, n=400)
    paths, found = write_files(tmp_path, X, y, parts=2), []
    small_blocks(monkeypatch, blocks, blocks // 2)  # of about 1 and 2 kB
    for own, available, threads in ((10_000_000, 8 << 30, 1), (200_000_000, 6 << 30, 2), (90_000_000, 32 << 30, 16)):
        monkeypatch.setattr(memory, "own_memory", lambda own=own: own)
        monkeypatch.setattr(memory, "available_memory", lambda available=available: available)
        found.append(partition_of(paths, budget, threads))
    spans, _, _, _, (default, _) = found[0]
    assert len(spans) > 3
    assert len(default) > 1
    assert found[1:] == [found[0], found[0]]


def test_the_budget_decides_how_large_they_are(tmp_path, monkeypatch):
    X, y = telling_rows(0, n=400)
    paths = write_files(tmp_path, X, y)
    small_blocks(monkeypatch, 1 << 17, 1 << 16)
    monkeypatch.setattr(memory, "own_memory", lambda: 100_000_000)
    small, large = (len(partition_of(paths, budget, 1)[-1][0]) for budget in (600_000_000, 1_200_000_000))
    assert small > large


def test_sizes_without_a_budget_are_fixed_as_long_as_they_fit():
    assert {planned_bytes(None, left) for left in (1 << 30, 3 << 30, 1 << 62)} == {USUAL_BYTES}
    for left in (700 << 20, 100 << 20, 5 << 20):
        assert left < planned_bytes(None, left) <= 2 * left
    assert planned_bytes(None, 0) > 0


def test_shards_that_do_not_fit_say_how_much_is_needed(tmp_path, monkeypatch):
    X, y = telling_rows(0, n=400)
    paths = write_files(tmp_path, X, y)
    small_blocks(monkeypatch, 1 << 40, 1)
    monkeypatch.setattr(file_engine, "SCORES_PER_BUDGET", 1 << 40)
    monkeypatch.setattr(memory, "own_memory", lambda: 100_000_000)
    engine = engine_of(problem_in(paths, TrainOptions(loss="softmax"), 100_050_000))
    with pytest.raises(DataError, match="memory_budget is too small: shards of rows need") as refusal:
        engine.shards(4)
    budget = memory.parse_size(str(refusal.value).partition("use at least ")[2])
    assert len(engine_of(problem_in(paths, TrainOptions(loss="softmax"), budget)).shards(4).loads) == 4
