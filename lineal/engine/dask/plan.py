"""Which worker runs which partitions: runs of consecutive ones where possible, so that partial sums are few."""

from __future__ import annotations

from collections.abc import Sequence

#: A worker with this many times its part of the rows hands some over, if others have less.
UNEVEN = 1.4


def planned(
    sizes: Sequence[float], workers: Sequence[str], holders: Sequence[Sequence[str]], before: Sequence[str | None]
) -> list[str]:
    """The worker of every partition.

    `sizes` are the costs of the partitions, `holders` the workers that have each of them now, and `before` are those of
    the last plan. Partitions stay where they are, unless that is uneven: rows are sent once, sums in every pass.
    """
    stay: list[str | None] = []
    for having, last in zip(holders, before, strict=True):
        here = [worker for worker in having if worker in workers]
        stay.append(last if last in workers and (last in here or not here) else here[0] if here else None)
    if None not in stay and _is_even(sizes, workers, stay):
        return [worker for worker in stay if worker is not None]
    found = _runs(sizes, _in_order(workers, stay))
    if None in stay and _is_even(sizes, workers, filled := _filled(stay, found)):
        return filled
    return found


def _is_even(sizes: Sequence[float], workers: Sequence[str], owners: Sequence[str | None]) -> bool:
    """Whether no worker has much more than its part, as far as whole partitions allow."""
    loads = dict.fromkeys(workers, 0.0)
    for size, owner in zip(sizes, owners, strict=True):
        if owner is not None:
            loads[owner] += size
    part = sum(sizes) / len(workers)
    largest = max(sizes, default=0.0)
    return max(loads.values()) <= max(UNEVEN * part, part + 0.5 * largest)


def _filled(stay: Sequence[str | None], found: Sequence[str]) -> list[str]:
    return [new if old is None else old for old, new in zip(stay, found, strict=True)]


def _in_order(workers: Sequence[str], owners: Sequence[str | None]) -> list[str]:
    """The workers in the order of the partitions that they have; those without any come last."""
    places: dict[str, list[int]] = {worker: [] for worker in workers}
    for number, owner in enumerate(owners):
        if owner is not None:
            places[owner].append(number)
    middle = {worker: sum(numbers) / len(numbers) if numbers else len(owners) for worker, numbers in places.items()}
    return sorted(workers, key=lambda worker: middle[worker])


def _runs(sizes: Sequence[float], workers: Sequence[str]) -> list[str]:
    """Consecutive partitions to each worker, of about equal cost."""
    total, done, found = sum(sizes), 0.0, []
    for number, size in enumerate(sizes):
        share = (done + 0.5 * size) / total if total else (number + 0.5) / len(sizes)
        found.append(workers[min(int(share * len(workers)), len(workers) - 1)])
        done += size
    return found
