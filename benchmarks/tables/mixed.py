"""From a CSV file to the AUC of held-out rows: whole processes of lineal, scikit-learn and skrub."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import Process, whole_process
from benchmarks.tables import sets
from benchmarks.tables.plan import Plan

COLUMNS = ("table", "by", "AUC", "seconds", "processor s", "ratio", "AUC points below the careful one")
TITLE = "Mixed tables, from CSV to AUC"
HERE = Path(__file__).parent
CAREFUL = "scikit-learn"

#: Runs of each contestant, of which the fastest counts, after one more run of those that cache kernels. Those that
#: take longer than `LONG` seconds run once.
REPEATS, LONG = 3, 30.0

Contestant = Callable[[], list[Process]]


def rows_of(plan: Plan) -> tuple[list[Any], list[dict[str, Any]]]:
    """The table, and every run."""
    rows: list[list[Any]] = []
    runs: list[dict[str, Any]] = []
    for name in plan.wanted(sets.NAMES):
        with TemporaryDirectory() as folder:
            files = sets.files_of(name, plan.data, Path(folder), plan.is_quick)
            best: dict[str, dict[str, Any]] = {}
            for by, run in contestants(files, Path(folder), plan.peers).items():
                for one in repeated(run, by.startswith("lineal"), 1 if plan.is_quick else REPEATS):
                    runs.append({"table": name, "by": by, **one})
                    best[by] = min(best.get(by, one), one, key=lambda some: some["seconds"])
                print(f"{name}: {by}: {best[by]}", flush=True)
        careful = best[CAREFUL]
        for by, one in best.items():
            rows.append([
                name, by, f"{one['auc']:.4f}", one["seconds"], one["cpu"],
                careful["seconds"] / one["seconds"], 100 * (careful["auc"] - one["auc"]),
            ])  # fmt: skip
    return [("mixed", TITLE, COLUMNS, rows)], runs


def repeated(run: Contestant, has_cache: bool, repeats: int) -> list[dict[str, Any]]:
    """Runs of a contestant, without the one that fills a cache."""
    if has_cache:
        run()
    found: list[dict[str, Any]] = []
    while len(found) < repeats and not (found and found[0]["seconds"] > LONG):
        processes = run()
        last = processes[-1].answer
        found.append({
            "auc": last.get("validation_roc_auc", last.get("roc_auc", last.get("auc"))),
            "seconds": sum(one.seconds for one in processes), "cpu": sum(one.cpu for one in processes),
        })  # fmt: skip
    return found


def contestants(files: sets.Files, folder: Path, peers: str | None) -> dict[str, Contestant]:
    """Each as a function that runs its processes; the last one prints the AUC."""
    given = json.dumps(files._asdict())
    model = str(folder / "model.lineal")
    command = [sys.executable, "-m", "lineal"]
    train = [*command, "train", files.train, "--label", files.label, "--model", model]

    def script(python: str, name: str) -> Contestant:
        return lambda: [whole_process([python, str(HERE / f"{name}_script.py"), given])]

    found = {
        "lineal train --validate": lambda: [_one_line(whole_process([*train, "--json", "--validate", files.test]))],
        "lineal train, evaluate": lambda: [
            whole_process([*train, "--quiet"]),
            _one_line(whole_process([*command, "evaluate", model, files.test, "--json"])),
        ],
        "lineal TableClassifier": script(sys.executable, "lineal"),
        CAREFUL: script(sys.executable, "scikit"),
    }
    return found if peers is None else {**found, "skrub": script(peers, "skrub")}


def _one_line(process: Process) -> Process:
    """The same with its JSON text, which is indented, on one line."""
    return process._replace(output=json.dumps(json.loads(process.output)))
