"""Two versions of lineal against each other: is anything slower than before?

    python -m benchmarks.versions --before CHECKOUT [--data DIR] [--json PATH] [--rounds N] [--match TEXT]

Each round runs one process per version, in turn, so that a slow spell of the machine hits both. A process fits once
untimed (kernels are compiled or loaded), then `REPEATS` times. The table shows the least seconds of all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 3
ROOT = Path(__file__).resolve().parent.parent


def fits(data: Path) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; data sets are loaded when the first of their fits is made."""
    from functools import cache, partial

    import datasets
    import numpy as np

    import lineal
    from lineal import LeastSquaresClassifier, LinearClassifier, OnlineClassifier, StagewiseClassifier

    @cache
    def rows(name: str, dtype: str = "float32") -> tuple[Any, Any]:
        if name in ("a9a", "w8a"):
            found = lineal.read(next(iter(sorted((data / name).glob("*train*")))))
            return found.X.astype(dtype), found.y
        if name == "mnist":
            X, y = datasets.mnist(data)
            return (X[:20000] / np.float32(255.0)).astype(dtype), y[:20000]
        X, y = datasets.intents(data, name) if name == "clinc150" else getattr(datasets, name)(data)
        return X.astype(dtype), y

    def fit(model: Any, name: str, dtype: str = "float32") -> Any:
        return model.fit(*rows(name, dtype))

    named: dict[str, Callable[[], Any]] = {}
    for name in ("newsgroups", "reuters", "clinc150", "a9a", "w8a"):
        for loss in ("squared_hinge", "logistic"):
            for dtype in ("float32", "float64"):
                named[f"{name}, {loss}, {dtype}"] = partial(fit, LinearClassifier(loss, tol=1e-3), name, dtype)
    for name in ("newsgroups", "reuters"):
        n = len(rows(name)[1])
        named[f"{name}, crammer_singer"] = partial(fit, LinearClassifier("crammer_singer", alpha=1.0 / n), name)
        sparse = LinearClassifier("multiclass_squared_hinge", "l1/l2", alpha=1e-3, tol=1e-3)
        named[f"{name}, l1/l2"] = partial(fit, sparse, name)
        named[f"{name}, l1"] = partial(fit, LinearClassifier("squared_hinge", "l1", alpha=1e-4, tol=1e-3), name)
        newton = LinearClassifier("logistic", alpha=1.0 / n, solver="newton", tol=1e-4)
        named[f"{name}, newton"] = partial(fit, newton, name)
    for solver in ("fista", "sparsa"):
        model = LinearClassifier("softmax", "l1/l2", alpha=1e-3, solver=solver, max_iter=60, tol=1e-9)
        named[f"reuters, {solver}, 60 iterations"] = partial(fit, model, "reuters")
    named["a9a, l1"] = partial(fit, LinearClassifier("squared_hinge", "l1", alpha=1e-4), "a9a")
    named["a9a, newton, 1e-8"] = partial(
        fit, LinearClassifier("logistic", alpha=1e-4, solver="newton", tol=1e-8), "a9a", "float64"
    )
    for method in ("lbfgs", "least_squares"):
        model = LinearClassifier("softmax", alpha=1e-4, solver=method, tol=1e-2)
        named[f"mnist, softmax, {method}"] = partial(fit, model, "mnist")
    calibrated = LeastSquaresClassifier(calibration="polynomial", alpha=1e-3, max_iter=10)
    named["mnist, calibrated"] = partial(fit, calibrated, "mnist")
    for update in ("linear", "calibrated", "softmax"):
        fixed = {"n_blocks": 3, "block_size": 512, "alpha": 1e-7, "validation_fraction": None, "random_state": 0}
        model = StagewiseClassifier(update=update, **fixed)
        named[f"mnist, stagewise {update}"] = partial(fit, model, "mnist")
    for loss in ("logistic", "squared", "hinge"):
        named[f"newsgroups, online {loss}"] = partial(fit, OnlineClassifier(loss=loss, bits=18), "newsgroups")
    named["a9a, online"] = partial(fit, OnlineClassifier(bits=18), "a9a")
    named["a9a, online adaptive"] = partial(fit, OnlineClassifier(bits=18, expansion="adaptive"), "a9a")
    named["mnist, online"] = partial(fit, OnlineClassifier(bits=18), "mnist")
    path = next(iter(sorted((data / "w8a").glob("*train*"))))
    named["w8a, read"] = lambda: lineal.read(path)
    return named


def child(data: Path, match: str) -> None:
    """Measure this version and print the seconds as JSON."""
    import warnings

    warnings.simplefilter("ignore")
    seconds = {}
    for name, run in fits(data).items():
        if match in name:
            run()
            times = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            seconds[name] = min(times)
            print(f"{name}: {seconds[name]:.3f} s", file=sys.stderr, flush=True)
    print("seconds " + json.dumps(seconds))


def measured(checkout: Path, data: Path, match: str) -> dict[str, float]:
    """Seconds by name, from a process that imports lineal from a checkout."""
    command = [sys.executable, __file__, "--child", "--data", str(data), "--match", match]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    print(checkout, file=sys.stderr, flush=True)
    done = subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}: the process ended with {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout.rpartition("seconds ")[2])
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="checkout of the version to compare with")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--json", type=Path, help="result file")
    parser.add_argument("--rounds", type=int, default=3, help="processes per version")
    parser.add_argument("--match", default="", help="only fits whose name has this text")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    data = arguments.data.resolve()
    if arguments.child:
        child(data, arguments.match)
        return
    if arguments.before is None:
        parser.error("--before names no checkout")
    from benchmarks.common import RESULTS, markdown_table, print_table, write_json

    least: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        pair = [measured(checkout, data, arguments.match) for checkout in (arguments.before.resolve(), ROOT)]
        for name, before in pair[0].items():
            known = least.setdefault(name, [float("inf")] * 2)
            least[name] = [min(known[0], before), min(known[1], pair[1][name])]
    rows = [[name, before, after, f"{after / before:.2f}"] for name, (before, after) in least.items()]
    columns = ("fit", "before, s", "after, s", "after / before")
    print_table("Two versions of lineal", columns, rows)
    path = arguments.json or RESULTS / "versions.json"
    write_json(path, {"columns": columns, "rows": rows})
    path.with_suffix(".md").write_text(markdown_table("Two versions of lineal", columns, rows))


if __name__ == "__main__":
    main()
