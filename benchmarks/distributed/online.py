"""Several online learners against one: seconds from a large file, and loss on generated and on real rows.

The files have generated sparse rows (`file_script`), as a converted file and as VW text, and are deleted afterwards;
their pages are in the cache of the system before the clock starts. One learner reads on one core while it learns on
another, so with two cores two learners gain what that leaves idle. Losses of one pass are progressive ones, and the
error is that on a test set; the ratios are to those of one learner.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import lineal
from benchmarks.distributed.file import SEED, SMALL_BYTES
from benchmarks.distributed.problems import ATTACKS, Plan, Table
from benchmarks.distributed.process import run
from benchmarks.liblinear.problems import Rows

SPEED = ("rows from", "GB", "passes", "one learner s", "2 on threads s", "speed-up", "2 on workers s", "speed-up")
LOSSES = ("data", "rows", "passes", "learners", "progressive loss", "ratio", "test loss", "ratio", "test error")

#: Size of the files, and free space that is needed, as a multiple of it.
GIGABYTES, SPACE = 1.2, 4.0

#: What is learned: a description, the kind of file, and products of features.
FILES = {
    "converted": ("a converted file", "arrow", None),
    "text": ("VW text", "vw", None),
    "products": ("a converted file, adaptive products", "arrow", "adaptive"),
}

DATA = ("a9a", "wiki_toxicity", ATTACKS)
LEARNERS = (1, 2, 4)

#: Generated dense rows, and the share of all rows that is for testing where there is no test set.
ROWS, WIDTH, TEST = 2_000_000, 40, 0.2
QUICK_ROWS = 5_000


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The tables and, for the file, everything that was tried."""
    details = [*_speed(plan), *_losses(plan)]
    return tables(details), details


def tables(details: list[dict[str, Any]]) -> list[Table]:
    """The tables of a result."""
    by_kind = {kind: [one for one in details if one["kind"] == kind] for kind in ("speed", "loss")}
    return [
        Table("speed", "Two online learners against one", SPEED, _speed_rows(by_kind["speed"])),
        Table("loss", "Loss of several online learners", LOSSES, _loss_rows(by_kind["loss"])),
    ]


# --- speed


def _speed(plan: Plan) -> list[dict[str, Any]]:
    size = int(1e9 * (0.05 if plan.is_quick else GIGABYTES))
    with TemporaryDirectory(dir=plan.scratch) as folder:
        if shutil.disk_usage(folder).free < SPACE * size:
            print(f"online: {SPACE * size / 1e9:.1f} GB must be free in {folder}; name another folder by --scratch")
            return []
        details = []
        for kind in plan.selected(FILES):
            _, suffix, expansion = FILES[kind]
            paths = [Path(folder) / f"{name}.{suffix}" for name in ("small", "large")]
            for path, least in zip(paths, (min(SMALL_BYTES, size), size), strict=True):
                outcome = run("online_script", ["write", str(path), json.dumps({"bytes": least, "seed": SEED})], 3600.0)
                print(f"{path.name}: {outcome.answer or outcome.error}", flush=True)
            for passes in (1, 3) if expansion is None else (1,):
                for learners, workers in ((1, 0), (2, 0), (2, 2)):
                    given = {
                        "learners": learners, "workers": workers, "passes": passes, "small": str(paths[0]),
                        "repeats": plan.repeats, "expansion": expansion,
                    }  # fmt: skip
                    outcome = run("online_script", ["fit", str(paths[1]), json.dumps(given)], plan.max_time)
                    answer = {"error": outcome.error, **(outcome.answer or {})}
                    details.append({"kind": "speed", "file": kind, **given, **answer})
                    print(kind, given, answer.get("seconds") or answer["error"], flush=True)
            for path in paths:
                path.unlink(missing_ok=True)
    return details


def _speed_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    found = []
    for kind, passes in dict.fromkeys((one["file"], one["passes"]) for one in details):
        fits = [one for one in details if (one["file"], one["passes"]) == (kind, passes)]
        one, threads, workers = (fit.get("median_seconds") for fit in fits)
        gains = [f"{one / other:.2f}" if one and other else None for other in (threads, workers)]
        gigabytes = f"{fits[0].get('bytes', 0) / 1e9:.2f}"
        found.append([FILES[kind][0], gigabytes, passes, one, threads, gains[0], workers, gains[1]])
    return found


# --- losses


def _losses(plan: Plan) -> list[dict[str, Any]]:
    details = []
    for name in plan.selected([*DATA, "generated"]):
        X, y, test_X, test_y = _split(plan, name)
        for passes in (1, 3):
            for learners in LEARNERS:
                model = lineal.OnlineClassifier(learners=learners, passes=passes, hold_out=0 if passes > 1 else 10)
                model.fit(X, y)
                chosen = model.predict_proba(test_X)[np.arange(len(test_y)), np.searchsorted(model.classes_, test_y)]
                details.append({
                    "kind": "loss", "data": name, "rows": len(y), "passes": passes, "learners": learners,
                    "progressive": model.history_[-1]["average_loss"],
                    "test": float(-np.log(np.maximum(chosen, 1e-15)).mean()),
                    "error": float(np.mean(model.predict(test_X) != test_y)),
                })  # fmt: skip
                print(details[-1], flush=True)
    return details


def _split(plan: Plan, name: str) -> Iterator[Any]:
    """Rows to learn from in random order, and rows to test on."""
    rng = np.random.default_rng(SEED)
    rows = _generated(plan, rng) if name == "generated" else plan.load(name)
    order = rng.permutation(len(rows.y))
    if plan.is_quick or name in ("generated", ATTACKS):  # a few rows have other columns than the test set
        cut = int((1.0 - TEST) * len(order))
        tested = rows
        train, test = order[:cut], order[cut:]
    else:
        tested = plan.load(name, "test")
        train, test = order, np.arange(len(tested.y))
    return iter((rows.X[train], rows.y[train], tested.X[test], tested.y[test]))


def _generated(plan: Plan, rng: np.random.Generator) -> Rows:
    n = QUICK_ROWS if plan.is_quick else ROWS
    X = rng.standard_normal((n, WIDTH), np.float32)
    scores = X @ (0.3 * rng.standard_normal(WIDTH, np.float32))
    return Rows("generated", X, (scores + rng.logistic(size=n) > 0.0).astype(int))


def _loss_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    found = []
    alone: dict[str, Any] = {}
    for one in details:
        alone = one if one["learners"] == 1 else alone
        ratios = [f"{one[loss] / alone[loss]:.3f}" for loss in ("progressive", "test")]
        found.append([
            one["data"], one["rows"], one["passes"], one["learners"], f"{one['progressive']:.5f}", ratios[0],
            f"{one['test']:.5f}", ratios[1], f"{one['error']:.2%}",
        ])  # fmt: skip
    return found
