"""The client's side of a pass over the rows: one share per worker, whose results are added up.

Shares are tasks, joined between workers, or calls (`calls.py`), joined here. Calls are for short passes; the first pass
after each look at the workers consists of tasks, so that the scheduler knows that its workers are in use.

What a pass needs is sent once: arguments, and rows or row state where the client knows that a worker lacks them. A
worker that lacks more says so before it changes anything, and its share runs again with everything. A pass that is lost
(a worker died with its results or with what was sent to it) is repeated: the arguments are still here.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import Task, TaskRef
from distributed import Client, Future

from lineal.engine.dask.calls import Call, call, run_task
from lineal.engine.dask.holder import Placed, Recipe, Request
from lineal.engine.dask.lineage import GIVEN_BY_PARTITIONS, Change, Node, Script, Variant, Writer
from lineal.engine.dask.outbox import Outbox
from lineal.engine.dask.parcels import nbytes
from lineal.engine.dask.plan import planned
from lineal.engine.dask.shares import Facts, Report, Result, get_ready, join_shares
from lineal.engine.dask.waiting import Waiting, leave, on_slow_worker, retrieve
from lineal.engine.overdue import asked, never
from lineal.engine.source import Encode
from lineal.errors import ClusterError, Unanswered

#: Number of times that a pass is tried.
ATTEMPTS = 6

#: Times that Dask itself tries a task whose worker had an error that is not one of the step.
RETRIES = 3

#: Number of results that one task adds up.
FAN_IN = 4

#: Workers are called, instead of getting tasks, if the parameters and results of all together have at most this many
#: bytes (the second number is for at most FAN_IN workers),
CALL_BYTES, FEW_CALLS_BYTES = 16 << 20, 256 << 20

#: if the last pass took no worker longer than so many seconds,
LONG_SECONDS = 1.0

#: and until so many calls in a row have failed: the client may not reach the workers.
FAILED_CALLS = 3

#: Seconds between two looks at which workers there are.
LOOK_SECONDS = 2.0

#: Seconds that a pass waits for a first worker, and for answers when the fit should have ended.
PATIENCE = 60.0

#: Number of passes that are looked at to find a slow worker.
RECENT = 5


class Share(NamedTuple):
    """Partitions that one worker is asked for."""

    number: int
    address: str
    mine: tuple[Placed, ...]


class Pass(NamedTuple):
    """One pass over the rows, as a solver asks for it.

    `nodes` are the versions of the states that are not cut; `holders` say, for each of them, which worker has which
    partition, or are None for a state that no worker keeps. `cuts` are arrays that are cut by rows.
    """

    request: Request
    arguments: tuple[Any, ...]
    nodes: tuple[Node, ...]
    holders: tuple[dict[int, str] | None, ...]
    cuts: tuple[np.ndarray, ...]
    variant: Variant
    change: Change | None = None


class WorkerGone(Exception):
    """Something was sent to a worker that is gone."""


class StepFailed(Exception):
    """A step raised an error, which is the cause of this one."""


class Rounds:
    """Runs passes over the rows of some partitions.

    Attributes
    ----------
    told : function that is told what a pass waits for, or None.
    patience : seconds that a pass waits for a first worker, and for answers when the fit should have ended.
    warm_up : functions that every worker runs before it gets a share.
    """

    def __init__(
        self, client: Client, parts: Sequence[Future], names: Sequence[str], facts: Sequence[Facts], encode: Encode
    ) -> None:
        self.client, self.parts, self.names, self.facts = client, list(parts), list(names), list(facts)
        self.encode = encode
        self.id = uuid.uuid4().hex
        self.told: Callable[[str], None] | None = None
        self.patience = PATIENCE
        self.warm_up: tuple[Callable[[], Any], ...] = ()
        self.first_rows = [0, *itertools.accumulate(one.n_rows for one in facts)]
        self.dtype = next((one.dtype for one in facts if one.n_rows), facts[0].dtype)
        self.recent: deque[tuple[Report, ...]] = deque(maxlen=RECENT)
        self.n_passes = self.n_called = self.n_made = self.n_rebuilt = self.n_repeated = 0
        self._failed_calls = 0
        self._result_bytes: dict[str, int] = {}
        self._owners: list[str | None] = [None] * len(self.parts)
        self._made: dict[int, str] = {}
        self._weighted: dict[tuple[int, int], str] = {}
        self._changes: dict[str, int] = {}
        self._workers: frozenset[str] = frozenset()
        self._getting_ready: dict[str, Future] = {}
        self._looked = -float("inf")
        self._waits_since: float | None = None
        self._waiting: Waiting | None = None
        self._longest = 0.0
        self._overdue: Callable[[], float] = never
        self._finished: list[Future] = []
        self._lock = threading.RLock()

    def n_blocks(self, block_rows: int) -> list[int]:
        """Number of blocks of every partition."""
        return [max(1, -(-one.n_rows // block_rows)) for one in self.facts]

    def turns(self, threads_per_worker: int | None) -> int:
        """Largest number of partitions that one thread works on one after the other, of at most so many per worker."""
        try:
            threads = dict(self.client.nthreads())
        except (OSError, TimeoutError):  # the next pass says what is wrong
            return len(self.parts)
        if threads_per_worker is not None:
            threads = {address: min(count, threads_per_worker) for address, count in threads.items()}
        if any(owner not in threads for owner in self._owners):  # workers have come or gone: they share evenly
            return -(-len(self.parts) // max(sum(threads.values()), 1))
        return max(-(-count // threads[str(owner)]) for owner, count in Counter(self._owners).items())

    def run(self, work: Pass) -> Result:
        """Run a pass; an error of the step is raised as it is.

        A pass that is not answered though the fit should have ended is given up: `Unanswered`.
        """
        with self._lock:
            self._overdue = asked()
            try:
                result: Result = self.client.sync(self._run, work)
            except StepFailed as failed:
                raise failed.__cause__ or failed from None
            finally:
                self._overdue = never
            return result

    def warm_machines(self) -> None:
        """Run what loads kernels on one worker per machine."""
        firsts: dict[str, str] = {}
        for address in sorted(self.client.nthreads()):
            firsts.setdefault(address.rpartition(":")[0], address)
        futures = [
            self.client.submit(get_ready, self.warm_up, workers=[address], pure=False, allow_other_workers=True)
            for address in firsts.values()
        ]
        self.client.gather(futures, errors="skip")

    async def _run(self, work: Pass) -> Result:
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                self.n_repeated += 1
                await asyncio.sleep(0.1 * 2**attempt)
            has_looked = await self._look(force=attempt > 0)
            try:
                return await self._attempt(work, may_call=not has_looked)
            except (StepFailed, ClusterError):
                raise
            except Exception as error:
                failure = error.with_traceback(None)
        raise ClusterError(
            f"a pass over the rows was lost {ATTEMPTS} times on the cluster at {self._address}: "
            f"{type(failure).__name__}: {failure}; see the logs of its workers"
        ) from failure

    # --- who runs what

    @property
    def _address(self) -> str:
        return str(self.client.scheduler.address) if self.client.scheduler else "an unknown address"

    async def _look(self, force: bool = False) -> bool:
        """Find out which workers there are, and plan anew if others are there; not if that was done a moment ago.

        Returns whether it was done.
        """
        if not force and time.monotonic() - self._looked < LOOK_SECONDS:
            return False
        workers = await self._wait_for_workers()
        ready = self._ready(workers)
        if force or ready != self._workers or None in self._owners:
            self._workers = ready
            await self._plan()
        self._looked = time.monotonic()
        return True

    async def _wait_for_workers(self) -> frozenset[str]:
        start = time.monotonic()
        while True:
            workers = await self._present()
            if workers:
                self._waits_since = None
                return workers
            self._waits_since = start if self._waits_since is None else self._waits_since
            self._check_patience()
            await asyncio.sleep(0.2)

    def _check_patience(self) -> None:
        """Tell that a pass waits for workers; raise an error if it has waited for too long."""
        if self._waits_since is None:
            return
        waited = time.monotonic() - self._waits_since
        if waited > self.patience:
            raise ClusterError(
                f"the cluster at {self._address} has had no workers for {waited:.0f} s: start some with "
                f"`dask worker {self._address}`"
            )
        self._tell()

    def _check_answers(self, waiting: Waiting) -> None:
        """Tell that a pass waits for workers; give it up if it is not answered though the fit should have ended."""
        self._tell()
        since = self._overdue()
        if since > self.patience and waiting.is_hopeless(self.patience):
            raise Unanswered(
                f"no answer from {waiting.named} for {waiting.seconds:.0f} s, although the fit should have ended "
                f"{since:.0f} s ago"
            )

    def _tell(self) -> None:
        remark = self.remark()
        if self.told is not None and remark:
            self.told(remark)

    async def _present(self) -> frozenset[str]:
        """Addresses of all workers."""
        try:
            return frozenset(await asyncio.wait_for(self.client.nthreads(), self.patience))
        except (OSError, TimeoutError) as error:
            raise ClusterError(
                f"the scheduler at {self._address} does not answer ({type(error).__name__}): check that it runs"
            ) from error

    def _ready(self, workers: frozenset[str]) -> frozenset[str]:
        """Workers that have loaded their kernels: those of the start, and later ones that have done so since."""
        for address in workers - self._workers - self._getting_ready.keys():
            if self._workers:
                self._getting_ready[address] = self.client.submit(
                    get_ready, self.warm_up, workers=[address], pure=False, retries=RETRIES, priority=-1
                )
        for address in self._getting_ready.keys() - workers:
            del self._getting_ready[address]
        late = {address for address, future in self._getting_ready.items() if not future.done()}
        ready = workers - late
        for address in self._getting_ready.keys() - late:
            del self._getting_ready[address]
        return ready or workers

    async def _plan(self) -> None:
        who_has = await self.client.who_has(self.parts)
        holders = [who_has.get(part.key, ()) for part in self.parts]
        sizes = [one.nbytes + 1.0 for one in self.facts]
        self._owners = list(planned(sizes, sorted(self._workers), holders, self._owners))

    def _shares(self, block_rows: int) -> list[Share]:
        blocks = [0, *itertools.accumulate(self.n_blocks(block_rows))]
        by_owner: dict[str, list[Placed]] = {}
        for number, owner in enumerate(self._owners):
            assert owner is not None
            placed = Placed(
                number, self.first_rows[number], self.facts[number].n_rows, blocks[number], self.names[number]
            )
            by_owner.setdefault(owner, []).append(placed)
        return [Share(number, owner, tuple(mine)) for number, (owner, mine) in enumerate(by_owner.items())]

    # --- one attempt

    async def _attempt(self, work: Pass, may_call: bool) -> Result:
        """Run all shares; those of workers that lack more than the client knew run again, with everything."""
        shares = self._shares(work.request.block_rows)
        pending, send_all = shares, False
        known: list[Result] = []
        keys: dict[int, str] = {}
        futures: list[Future] = []
        try:
            for _ in range(2 + len(shares)):
                parcels = self._parcels(work, pending, send_all)
                if may_call and self._can_call(work, parcels):
                    results = await self._call(work, parcels)
                else:
                    tasks, sent = await self._tasks(work, parcels)
                    futures += sent
                    keys.update({number: str(task.key) for number, task in tasks.items()})
                    by_task = [share for share in shares if share.number in keys]
                    final, submitted = await self._submit(tasks, by_task, keys)
                    futures += submitted
                    late = _late(by_task, submitted[: len(tasks)], tuple(tasks))
                    results = [*known, await self._result(final, late)]
                error = next((result.error for result in results if result.error is not None), None)
                if error is not None:
                    raise StepFailed from error
                lacking = {report.share for result in results for report in result.reports if report.needs_more}
                if not lacking:
                    result = results[0] if len(results) == 1 else join_shares(*results)
                    self._learn(work, shares, result)
                    self._finished, futures = [*self._finished, *futures], []
                    return result
                known = [result for result in results if not any(report.needs_more for report in result.reports)]
                pending, send_all, may_call = [share for share in shares if share.number in lacking], True, False
        finally:
            for future in futures:
                future.release()
        raise ClusterError(
            f"workers of the cluster at {self._address} keep losing the rows: do they have enough memory?"
        )

    def _parcels(self, work: Pass, pending: Sequence[Share], send_all: bool) -> list[_Parcel]:
        """What some shares must be sent besides the arguments."""
        needs = [self._needs(work, share, send_all) for share in pending]
        wanted = tuple(
            next((node for need in needs if (node := need.states[position]) is not None), None)
            for position in range(len(work.nodes))
        )
        writer = Writer()
        script = writer.script(wanted) if any(node is not None for node in wanted) else None
        variants = {**writer.variants, work.variant.number: work.variant}
        parcels = []
        for share, need in zip(pending, needs, strict=True):
            own_script = script if any(node is not None for node in need.states) else None
            cuts = tuple(
                tuple(array[placed.first_row : placed.first_row + placed.n_rows] for array in work.cuts)
                for placed in share.mine
            )
            parcels.append(
                _Parcel(share, own_script, self._recipe(share, need, variants, work.change), cuts, need.rows)
            )
        return parcels

    def _needs(self, work: Pass, share: Share, send_all: bool) -> _Needs:
        numbers = [placed.number for placed in share.mine]
        wanted = tuple(
            node if send_all or known is None or any(known.get(n) != share.address for n in numbers) else None
            for node, known in zip(work.nodes, work.holders, strict=True)
        )
        lacks_rows = send_all or any(self._made.get(n) != share.address for n in numbers)
        return _Needs(wanted, lacks_rows, send_all)

    def _can_call(self, work: Pass, parcels: Sequence[_Parcel]) -> bool:
        """Whether shares can be called, and it is worth it: the rows are there, and so is room for the results here."""
        if self._failed_calls >= FAILED_CALLS or any(parcel.needs_rows for parcel in parcels):
            return False
        if max((report.seconds for report in self.recent[-1]), default=0.0) > LONG_SECONDS:
            return False
        size = max(nbytes(work.arguments), self._result_bytes.get(_kind(work.request.step), CALL_BYTES))
        return len(parcels) * size <= (FEW_CALLS_BYTES if len(parcels) <= FAN_IN else CALL_BYTES)

    async def _call(self, work: Pass, parcels: Sequence[_Parcel]) -> list[Result]:
        """Results of shares whose workers are called."""
        self._release_finished()
        calls = [
            (share.address, Call(work.request, share.number, share.mine, work.arguments, script, recipe, cuts))
            for share, script, recipe, cuts, _ in parcels
        ]

        client, late = self.client, {what.share: address for address, what in calls}

        async def answer(address: str, what: Call) -> Result:  # without self, which its traceback would keep
            result = await call(client, address, what)
            del late[what.share]
            return result

        def start() -> Any:
            return asyncio.gather(*(answer(address, what) for address, what in calls))

        try:
            results: list[Result] = await self._watched(start, lambda: list(late.values()), is_repeated=False)
        except ClusterError:
            raise
        except Exception:
            self._failed_calls += 1
            raise
        self._failed_calls = 0
        self.n_called += 1
        return results

    async def _tasks(self, work: Pass, parcels: Sequence[_Parcel]) -> tuple[dict[int, Task], list[Future]]:
        """The tasks of some shares; what is large has been sent to workers."""
        outbox = Outbox(self.client, [parcel.share.address for parcel in parcels])
        arguments = outbox.to_all(work.arguments)
        script = outbox.to_all(next((parcel.script for parcel in parcels if parcel.script is not None), None))
        own = [
            (outbox.to_one(parcel.recipe, parcel.share.address), outbox.to_one(parcel.cuts, parcel.share.address))
            for parcel in parcels
        ]
        refs, sent = outbox.refs, []
        if outbox.things:
            refs, sent = await self._watched(outbox.send, outbox.late, is_repeated=False)
        tasks = {}
        for position, (parcel, (recipe, cuts)) in enumerate(zip(parcels, own, strict=True)):
            share = parcel.share
            parts = [TaskRef(self.parts[placed.number].key) for placed in share.mine] if parcel.needs_rows else []
            tasks[share.number] = Task(
                f"lineal-share-{uuid.uuid4().hex}", run_task, work.request, share.number, share.mine,
                refs(arguments, position), None if parcel.script is None else refs(script, position), refs(recipe),
                refs(cuts), *parts,
            )  # fmt: skip
        return tasks, sent

    def _recipe(
        self, share: Share, needs: _Needs, variants: dict[int, Variant], change: Change | None
    ) -> Recipe | None:
        weights = {}
        for number, variant in variants.items():
            if number == GIVEN_BY_PARTITIONS or variant.weights is None:
                continue
            for placed in share.mine:
                if needs.everything or self._weighted.get((number, placed.number)) != share.address:
                    rows = slice(placed.first_row, placed.first_row + placed.n_rows)
                    weights[number, placed.number] = np.asarray(variant.weights[rows])
        is_known = change is None or (self._changes.get(share.address) == change.number and not needs.everything)
        if not needs.rows and not weights and is_known:
            return None
        keys = tuple(str(self.parts[placed.number].key) for placed in share.mine) if needs.rows else ()
        return Recipe(self.encode, weights, self.dtype, None if is_known else change, keys)

    async def _submit(
        self, tasks: dict[int, Task], shares: Sequence[Share], keys: dict[int, str]
    ) -> tuple[Future, list[Future]]:
        """Send tasks, and those that join the results of all `shares`, of which some can have been sent before."""
        layers: dict[str, Any] = {}
        depends: dict[str, set[str]] = {}

        def add(task: Task, address: str, on: set[str]) -> None:
            notes = {"workers": [address], "allow_other_workers": True, "retries": RETRIES}
            key = str(task.key)
            layers[key] = MaterializedLayer({key: task}, annotations=notes)
            depends[key] = on

        addresses = {share.number: share.address for share in shares}
        for number, task in tasks.items():
            add(task, addresses[number], set())
        level = [(keys[share.number], share.address) for share in shares]
        while len(level) > 1:
            joined = []
            for start in range(0, len(level), FAN_IN):
                group = level[start : start + FAN_IN]
                if len(group) > 1:
                    own = [key for key, _ in group]
                    task = Task(f"lineal-join-{uuid.uuid4().hex}", join_shares, *map(TaskRef, own))
                    add(task, group[0][1], {key for key in own if key in layers})
                    group = [(str(task.key), group[0][1])]
                joined.append(group[0])
            level = joined
        graph = HighLevelGraph(layers, depends)
        wanted = [*(task.key for task in tasks.values()), level[0][0]]
        # Messages of a client are sent every 10 ms. Released here, the results of the last pass are in the same one.
        self._release_finished()
        await asyncio.sleep(0)
        futures = self.client.get(graph, wanted, sync=False)
        return futures[-1], futures

    def _release_finished(self) -> None:
        """Release what the last passes made on workers."""
        for future in self._finished:
            future.release()
        self._finished = []

    async def _result(self, final: Future, late: Callable[[], list[str]]) -> Result:
        """The result of a task, for which workers may have to be waited for."""
        result: Result = await self._watched(lambda: self.client.gather(final, direct=True), late, is_repeated=True)
        return result

    async def _watched(self, start: Callable[[], Any], late: Callable[[], list[str]], is_repeated: bool) -> Any:
        """Await what `start` returns, and look at the workers meanwhile; `late` are those that have not answered.

        Dask tries for half a minute to connect to a worker that is gone. Here, the attempt ends when the scheduler
        knows of it: it is repeated, if that can help, or a `WorkerGone` is raised.
        """
        present = self._workers
        waiting = asyncio.ensure_future(start())
        # A pass that Ctrl-C has ended here goes on there, beside the next one.
        watch = self._waiting = Waiting(late, self._longest)
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=0.5)
                if done:
                    self._waits_since, self._longest = None, max(self._longest, watch.seconds)
                    return waiting.result()
                now = await self._present()
                if present - now:
                    self._looked = -float("inf")
                # Dask leaves tasks alone that had no worker at all when they were to be placed, whoever comes later.
                if (present - now and not is_repeated) or (now and not now & self._workers):
                    raise WorkerGone(f"workers {sorted((present | self._workers) - now)} are gone")
                if present - now:
                    waiting.cancel()
                    waiting.add_done_callback(retrieve)
                    waiting = asyncio.ensure_future(start())
                self._waits_since = None if now else self._waits_since or time.monotonic()
                self._check_patience()
                watch.look()
                if now:
                    self._check_answers(watch)
                present = now
        finally:
            self._waiting = None if self._waiting is watch else self._waiting
            if not is_repeated:
                waiting.cancel()
            leave(waiting)

    # --- what is learnt from a pass

    def _learn(self, work: Pass, shares: Sequence[Share], result: Result) -> None:
        """Remember who has what, and how long it took."""
        self.n_passes += 1
        self._result_bytes[_kind(work.request.step)] = sys.getsizeof(result)
        for report in result.reports:
            share = shares[report.share]
            if report.address != share.address:
                self._looked = -float("inf")  # it ran elsewhere: plan anew
            if work.change is not None:
                self._changes[report.address] = work.change.number
            self.n_made += report.n_made
            self.n_rebuilt += report.n_rebuilt
            for placed in share.mine:
                self._made[placed.number] = report.address
                self._weighted[work.variant.number, placed.number] = report.address
                for holders in work.holders:
                    if holders is not None:
                        holders[placed.number] = report.address
        live = work.request.live_variants
        self._weighted = {place: address for place, address in self._weighted.items() if place[0] in live}
        self.recent.append(result.reports)

    def remark(self) -> str:
        """What a progress line should say about the cluster: who is waited for, or which worker is slow."""
        if self._waits_since is not None:
            return f"waiting for workers at {self._address} ({time.monotonic() - self._waits_since:.0f} s)"
        return on_slow_worker(self.recent) if self._waiting is None else self._waiting.remark()


class _Needs(NamedTuple):
    """What a share must be sent: versions of states (None: it has the pieces), and whether it lacks rows."""

    states: tuple[Node | None, ...]
    rows: bool
    everything: bool


class _Parcel(NamedTuple):
    """What a share is sent besides the arguments; whether it needs its partitions as well."""

    share: Share
    script: Script | None
    recipe: Recipe | None
    cuts: tuple[tuple[np.ndarray, ...], ...]
    needs_rows: bool


def _late(shares: Sequence[Share], futures: Sequence[Future], numbers: Sequence[int]) -> Callable[[], list[str]]:
    """Function that returns the addresses of shares whose tasks are not done; all while their results are joined.

    `futures` are those of the shares with these numbers; the others are done.
    """
    addresses = {share.number: share.address for share in shares}

    def late() -> list[str]:
        left = [addresses[n] for n, future in zip(numbers, futures, strict=True) if not future.done()]
        return left or list(addresses.values())

    return late


def _kind(step: Any) -> str:
    """What steps with results of the same size have in common."""
    return str(getattr(step, "__qualname__", type(step).__qualname__))
