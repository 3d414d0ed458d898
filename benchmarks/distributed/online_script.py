"""One measurement of online learners, in a process of its own.

    python -m benchmarks.distributed.online_script write PATH JSON
    python -m benchmarks.distributed.online_script fit PATH JSON

`write` generates sparse rows block by block, as VW text if the path ends so and else as a converted file; JSON has
bytes (of a converted file) and seed. `fit` learns from the file; JSON has learners, workers (0 means threads of this
process), passes, expansion, small (the path of a small file of the same kind, for the warm-up) and repeats.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.distributed.contestant import phase
from benchmarks.distributed.file_script import generate, read_through
from lineal.data.binary.write import write
from lineal.online.from_files import FileLearner, Labels
from lineal.online.options import OnlineOptions


def main() -> None:
    """Write or fit, and answer."""
    task, path, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    phase(task)
    answer = _written(path, options) if task == "write" else _fits(path, options)
    print("answer " + json.dumps(answer), flush=True)


def _written(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    rows = generate(int(options["bytes"]), int(options["seed"]))
    if path.suffix != ".vw":
        write(rows, path)
    else:
        with path.open("w") as file:
            for block in rows:
                X, y = block.X, block.y
                for row in range(X.shape[0]):
                    entries = slice(X.indptr[row], X.indptr[row + 1])
                    pairs = zip(X.indices[entries].tolist(), X.data[entries].tolist(), strict=True)
                    file.write(f"{1 if y[row] else -1} | " + " ".join(f"{j}:{x:.4g}" for j, x in pairs) + "\n")
    return {"bytes": path.stat().st_size}


def _fits(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    with _cluster(int(options["workers"])):
        _fit(Path(options["small"]), options)
        read_through(path)
        seconds, loss = [], None
        for _ in range(options["repeats"]):
            start = time.perf_counter()
            loss = _fit(path, options)
            seconds.append(time.perf_counter() - start)
    return {
        "bytes": path.stat().st_size, "seconds": seconds, "median_seconds": float(np.median(seconds)), "loss": loss,
    }  # fmt: skip


def _fit(path: Path, options: dict[str, Any]) -> Any:
    engine = "dask" if options["workers"] else "local"
    wanted = OnlineOptions(
        loss="logistic", learners=options["learners"], passes=options["passes"], engine=engine,
        hold_out=0 if options["passes"] > 1 else 10, expansion=options["expansion"],
    )  # fmt: skip
    return FileLearner(str(path), wanted.checked(), {}, Labels()).fit()[2].history[-1]["average_loss"]


def _cluster(workers: int) -> AbstractContextManager[Any]:
    if not workers:
        return nullcontext()
    from distributed import Client

    from lineal.engine.dask.cluster import local_cluster

    return Client(local_cluster(workers, None))


if __name__ == "__main__":
    main()
