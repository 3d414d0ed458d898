"""Reads files that another thread changes meanwhile; a program of its own, as the wrong way to read is a fatal signal.

Arguments: folder, format, number of attempts, seed. Prints a JSON list with one text per attempt: "" where it was fine.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

import lineal
from lineal.data.options import ReadOptions
from lineal.data.stream import stream
from lineal.errors import LinealError


def read_whole(path: str) -> Any:
    data = lineal.read(path)
    return summary([data])


def read_in_blocks(path: str) -> Any:
    return summary(lineal.read_blocks(path, block_bytes=1 << 16))


def read_stream(path: str) -> Any:
    with closing(stream(path, ReadOptions(block_bytes=1 << 16))) as blocks:  # type: ignore[type-var]
        return summary(blocks)


WAYS: list[Callable[[str], Any]] = [read_whole, read_in_blocks, read_stream]


def summary(blocks: Any) -> Any:
    """What was read, in a form that can be compared; it looks at every value."""
    rows, total, labels = 0, 0.0, 0.0
    for data in blocks:
        rows += len(data)
        values = data.X if isinstance(data.X, np.ndarray) else data.X.data
        total += float(np.sum(values, dtype=np.float64))
        labels += 0.0 if data.y is None else float(np.sum(data.y, dtype=np.float64))
    return rows, round(total, 2), labels


def change(path: str, rng: random.Random) -> None:
    """What other programs do to files: cut, empty, append to, overwrite, replace, delete."""
    size = os.path.getsize(path)
    kind = rng.choice(["cut", "cut", "empty", "append", "overwrite", "replace", "delete"])
    if kind == "cut":
        os.truncate(path, rng.randrange(size))
    elif kind == "empty":
        os.truncate(path, 0)
    elif kind == "append":
        with open(path, "ab") as file:
            file.write(b"\n1 1:2\n")
    elif kind == "overwrite":
        with open(path, "r+b") as file:
            file.seek(rng.randrange(size))
            file.write(b"17")
    elif kind == "replace":
        other = path + ".new"
        shutil.copyfile(path, other)
        os.truncate(other, size // 2)
        os.replace(other, path)
    else:
        os.unlink(path)


def outcome(read: Callable[[str], Any], path: str) -> Any:
    try:
        return read(path)
    except LinealError as error:
        return f"error: {error}"
    except Exception as error:
        return f"not fine: {type(error).__name__}: {error}"


def attempt(good: str, path: str, read: Callable[[str], Any], expected: Any, seconds: float, rng: random.Random) -> str:
    """One attempt: what was wrong about it, or nothing."""
    shutil.copyfile(good, path)
    delay = rng.random() * 1.2 * seconds

    def later() -> None:
        time.sleep(delay)
        change(path, rng)

    thread = threading.Thread(target=later)
    thread.start()
    found = outcome(read, path)
    thread.join()
    if isinstance(found, str):
        return found if found.startswith("not fine") else ""
    afterwards = outcome(read, path)  # the file may have changed before it was opened, and still be one
    return "" if found in (expected, afterwards) else f"{found} instead of {expected} or {afterwards}"


def main() -> None:
    folder, kind, attempts, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    good, path = os.path.join(folder, f"good{kind}"), os.path.join(folder, f"changing{kind}")
    rng, problems = random.Random(seed), []
    timed = []
    for read in WAYS:
        read(good)
        start = time.perf_counter()
        timed.append((read, read(good), time.perf_counter() - start))
    for number in range(attempts):
        read, expected, seconds = timed[number % len(timed)]
        problem = attempt(good, path, read, expected, seconds, rng)
        problems.append(problem and f"{read.__name__}: {problem}")
    print(json.dumps(problems))


if __name__ == "__main__":
    main()
