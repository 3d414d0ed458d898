"""An engine for tests: rows in unequal blocks, some empty, in other processes, whose row state gets lost.

It runs every step the way that a cluster would: steps, arguments and blocks are pickled, arrays that arrive are
read-only, each block gets only its own slice of an array that is cut, and pieces of row state are forgotten at random.
"""

from __future__ import annotations

import atexit
import math
import multiprocessing
import pickle
import weakref
from dataclasses import dataclass, field, fields, is_dataclass, replace

import cloudpickle
import numpy as np

from lineal.engine.base import Block
from lineal.engine.local import LocalEngine
from lineal.engine.state import Changing, RowState, StateCache, commit, cut_rows
from lineal.engine.time_limit import EqualShare
from lineal.engine.tree import add_along_tree


def read_only(thing):
    """The same with every array in it read-only."""
    if isinstance(thing, np.ndarray):
        thing.flags.writeable = False
    elif isinstance(thing, dict):
        for value in thing.values():
            read_only(value)
    elif isinstance(thing, tuple | list):
        for value in thing:
            read_only(value)
    elif is_dataclass(thing):
        for entry in fields(thing):
            read_only(getattr(thing, entry.name))
    return thing


class Holder:
    """Who holds blocks: runs steps on them, and forgets a piece of row state now and then."""

    def __init__(self):
        self.blocks, self.caches, self.forgetful = {}, {}, {}

    def load(self, engine, blocks, share, seed):
        """Take blocks by number."""
        self.blocks[engine], self.caches[engine] = read_only(blocks), StateCache()
        self.forgetful[engine] = share, np.random.default_rng([seed, *blocks])

    def run(self, engine, step, arguments, uses):
        """Answers by number of block; `uses` are one list per block."""
        cache, (share, random) = self.caches[engine], self.forgetful[engine]
        answers = {}
        for number, block in self.blocks[engine].items():
            for place in list(cache.kept):
                if random.random() < share:
                    del cache.kept[place]
            answers[number] = cache.run(step, number, block, uses[number], read_only(arguments))
        return answers

    def drop(self, engine):
        """Forget the rows of an engine."""
        for known in (self.blocks, self.caches, self.forgetful):
            known.pop(engine, None)

    def drop_state(self, engine, key):
        """Forget a state."""
        if engine in self.caches:
            self.caches[engine].drop(key)


class Here:
    """A holder in this process, asked through pickles all the same."""

    def __init__(self):
        self.holder, self.answer = Holder(), None

    def send(self, *request):
        name, *arguments = cloudpickle.loads(cloudpickle.dumps(request))
        self.answer = cloudpickle.dumps(getattr(self.holder, name)(*arguments))

    def receive(self):
        return cloudpickle.loads(self.answer)


def serve(pipe):
    """The loop of a process that holds blocks."""
    holder = Holder()
    while True:
        name, *arguments = cloudpickle.loads(pipe.recv_bytes())
        try:
            answer = True, getattr(holder, name)(*arguments)
        except BaseException as error:
            answer = False, error
        pipe.send_bytes(cloudpickle.dumps(answer))


class Elsewhere:
    """A holder in a process of its own."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=serve, args=(far,), daemon=True)
        self.process.start()
        atexit.register(self.process.kill)

    def send(self, *request):
        self.pipe.send_bytes(cloudpickle.dumps(request))

    def receive(self):
        is_fine, answer = cloudpickle.loads(self.pipe.recv_bytes())
        if not is_fine:
            raise answer
        return answer


_here = Here()
_elsewhere: list[Elsewhere] = []


def holders(processes):
    """One holder in this process for 0, or this many processes, which tests share."""
    while len(_elsewhere) < processes:
        _elsewhere.append(Elsewhere())
    return _elsewhere[:processes] if processes else [_here]


@dataclass
class Traffic:
    """Bytes sent with the steps, without arguments, at most."""

    step: int = 0


@dataclass(frozen=True, eq=False)
class ServedRows:
    """The rows of a local engine, served by others in blocks of the given sizes."""

    local: LocalEngine
    sizes: tuple[int, ...]
    processes: int = 0
    forgets: float = 0.0
    seed: int = 0
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self):
        assert sum(self.sizes) == self.local.shape[0]
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        blocks = {}
        for number, (first, size) in enumerate(zip(starts, self.sizes)):
            first, last = int(first), int(first + size)
            offsets = None if self.local.offsets is None else self.local.offsets[first:last]
            blocks[number] = Block(
                self.local.X.rows(first, last), self.local.targets.rows(first, last), self.local.weights[first:last],
                offsets, self.local.threads, first,
            )  # fmt: skip
        found = holders(self.processes)
        cuts = np.array_split(np.arange(len(blocks)), len(found))
        object.__setattr__(self, "held", [(holder, [int(b) for b in cut]) for holder, cut in zip(found, cuts)])
        object.__setattr__(self, "bounds", {number: (block.first, block.n) for number, block in blocks.items()})
        for holder, numbers in self.held:
            mine = {number: blocks[number] for number in numbers}
            holder.send("load", id(self), mine, self.forgets, self.seed)
            holder.receive()
            weakref.finalize(self, _tell, holder, "drop", id(self)).atexit = False

    shape = property(lambda self: self.local.shape)
    dtype = property(lambda self: self.local.dtype)
    n_columns = property(lambda self: self.local.n_columns)
    threads = property(lambda self: self.local.threads)
    is_dense = property(lambda self: self.local.is_dense)
    stored = property(lambda self: self.local.stored)
    room = None
    is_remote = True
    largest_block = property(lambda self: max(self.sizes))

    def with_threads(self, threads):
        return self if threads == self.threads else replace(self, local=self.local.with_threads(threads))

    def with_weights(self, weights):
        return replace(self, local=self.local.with_weights(weights))

    def with_features(self, change):
        return replace(self, local=self.local.with_features(pickle.loads(pickle.dumps(change))))

    def shards(self, count=None, seed=0):
        assert count is None
        return self

    partition = property(lambda self: np.array(self.sizes))

    def time_per_shard(self, seconds):
        return None if seconds is None else EqualShare(seconds / len(self.sizes))

    def warm_up(self, function):
        pickle.loads(pickle.dumps(function))()

    def remark(self):
        return ""

    def notify(self, tell):
        pass

    def gather(self, step, *arguments, states=()):
        uses = [entry.use() for entry in states]
        for use in uses:
            size = len(cloudpickle.dumps((step, use.rebuild)))
            self.traffic.step = max(self.traffic.step, size)
        for holder, numbers in self.held:
            mine = {number: [use.for_rows(*self.bounds[number]) for use in uses] for number in numbers}
            holder.send("run", id(self), step, arguments, mine)
        answers = {}
        for holder, _ in self.held:
            answers.update(holder.receive())
        commit(states)
        return [answers[number] for number in sorted(answers)]

    def sum(self, step, *arguments, states=(), rows=1):
        return add_along_tree(iter(self.gather(step, *arguments, states=states)))

    def update(self, step, *arguments, states):
        assert any(isinstance(entry, Changing) for entry in states)
        self.gather(step, *arguments, states=states)

    def state(self, rebuild, *arguments, max_bytes=math.inf, is_exact=True):
        state = RowState(rebuild, arguments, max_bytes / max(self.shape[0], 1))
        for holder, _ in self.held:
            weakref.finalize(state, _tell, holder, "drop_state", id(self), state.key).atexit = False
        return state

    def cut(self, array):
        return RowState(cut_rows, (array,), -1.0)


def _tell(holder, *request):
    holder.send(*request)
    holder.receive()
