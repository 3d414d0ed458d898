"""Stagewise regression against a kernel machine, SVC(RBF), on MNIST and Fashion-MNIST.

    python -m benchmarks.least_squares.mnist NAME SETTING SECONDS DATA [--quick]

The kernel machine's fit is timed in the same run. Each stagewise fit then gets as long, in a process of its own, whose
peak of resident memory is noted before the test rows are looked at. Rows are bytes for lineal, which converts them by
chunks, and float64 for the kernel machine. On MNIST it has C = 10 and gamma = 0.02, on
Fashion-MNIST C = 10 and scikit-learn's default gamma.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_gb
from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import LOADERS, Plan, Sets, Table

TITLE = "Stagewise regression against SVC(RBF): test errors (%) within a quarter of its time and within its time"
COLUMNS = (
    "data", "SVC", "SVC s", "SVC error", "stagewise", "s to below SVC's error", "time ratio", "error in a quarter",
    "error in its time", "blocks", "peak GB",
)  # fmt: skip
KERNELS: dict[str, dict[str, Any]] = {"MNIST": {"C": 10, "gamma": 0.02}, "Fashion-MNIST": {"C": 10, "gamma": "scale"}}

#: The defaults of the library, and patches of the images (chosen
#: on 10,000 of the training rows, by fits to 20,000 others: without whitening, side 9, 3 × 3 regions).
SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "patches": {
        "generator": "patches:image_shape=28x28,patch=9,pool=3,whiten=false,n_filters=1800",
        "block_size": 1620,
        "alpha": 1e-6,
    },
}


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file and the plots every curve."""
    table: list[list[Any]] = []
    details: dict[str, Any] = {}
    for name in plan.selected("MNIST", "Fashion-MNIST"):
        svc = _kernel_machine(plan, name)  # its rows are gone before the others start
        print(f"{name}: {svc['name']}: {svc['error']:.2f} % in {svc['seconds']:.1f} s", flush=True)
        details[name] = {"svc": svc, "runs": {}}
        for setting in SETTINGS:
            command = [sys.executable, "-m", __name__, name, setting, str(svc["seconds"]), str(plan.data)]
            command += ["--quick"] * plan.is_quick
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            run = details[name]["runs"][setting] = json.loads(done.stdout.strip().splitlines()[-1])
            table.append(_row(name, svc, setting, run))
            print(*table[-1], flush=True)
    return [Table("mnist", TITLE, COLUMNS, table)], details


def _kernel_machine(plan: Plan, name: str) -> dict[str, Any]:
    from sklearn.svm import SVC

    sets = plan.load(name)
    X, options = sets.X.astype(np.float64), KERNELS[name]
    seconds, model = ours.timed(lambda: SVC(**options, cache_size=1000).fit(X, sets.y))
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    return {"name": f"SVC({shown})", "seconds": seconds, "error": sets.error(model.predict(sets.X_test))}


def _row(name: str, svc: dict[str, Any], setting: str, run: dict[str, Any]) -> list[Any]:
    curve, seconds = run["curve"], svc["seconds"]
    soon = (ours.first_below(curve, svc["error"]) or {}).get("seconds")
    early, late = (ours.at_time(curve, share * seconds) for share in (0.25, 1.0))
    return [
        name, svc["name"], seconds, f"{svc['error']:.2f}", setting, soon, soon and seconds / soon,
        early and f"{early:.2f}", late and f"{late:.2f}", len(curve), run["peak_gb"],
    ]  # fmt: skip


def measure(plan: Plan, name: str, setting: str, seconds: float) -> dict[str, Any]:
    """One stagewise fit: its curve and its peak of memory."""
    warm = ours.warm_up(plan)
    loader, test = LOADERS[name]
    rows, test_rows = (6000, 2000) if plan.is_quick else (None, None)
    (X, y), (X_test, y_test) = loader(plan.data, "train"), loader(plan.data, test)
    sets = Sets(name, X[:rows], y[:rows], X_test[:test_rows], y_test[:test_rows])
    options = {"generator": ours.generator(name), **SETTINGS[setting]} if SETTINGS[setting] else {}
    taken, model = ours.stagewise(sets, max_time=seconds, random_state=0, **options)
    peak = peak_gb()
    return {"warm_up_seconds": warm, "seconds": taken, "peak_gb": peak, "curve": ours.curve_of(taken, model, sets)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("setting")
    parser.add_argument("seconds", type=float)
    parser.add_argument("data", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(json.dumps(measure(Plan(given.data, given.quick), given.name, given.setting, given.seconds)))
