"""A file larger than its memory budget against the same rows in memory: seconds, and anonymous memory.

The file has generated sparse rows in the binary layout and is deleted afterwards. Its pages are in the cache of the
system before the clock starts, so what is measured is the work of streaming and not the disk. Each measurement is a
process of its own. In memory, the clock starts with the rows in memory.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.distributed.problems import Plan, Table
from benchmarks.distributed.process import Outcome, run

COLUMNS = (
    "fit", "in memory s", "file s", "file's share of the speed", "in memory, anonymous GB", "file, anonymous GB",
    "objective in memory", "objective, file",
)  # fmt: skip

#: Most memory that a fit on the file may take.
BUDGET = "1GB"

KINDS = {"newton": "Newton, logistic", "dual_cd": "dual CD, squared hinge", "online": "online, one pass"}

SEED = 0

#: Free space that is needed, as a multiple of the file: the writer collects columns in files beside it.
SPACE = 2.5

#: Size of the file of the warm-up.
SMALL_BYTES = 20_000_000


def rows_of(plan: Plan) -> tuple[list[Table], list[dict[str, Any]]]:
    """The table and, for the file, everything that was tried."""
    size = int(1e9 * (0.2 if plan.is_quick else plan.file_gb))
    with TemporaryDirectory(dir=plan.scratch) as folder:
        free = shutil.disk_usage(folder).free
        if free < SPACE * size:
            needed = f"{SPACE * size / 1e9:.1f} GB must be free"
            print(f"file: {needed} in {folder}, and {free / 1e9:.1f} GB are; name another folder by --scratch")
            return [Table("file", "", COLUMNS, [])], []
        paths = {"small": Path(folder) / "small.arrow", "large": Path(folder) / "large.arrow"}
        details = [_write(plan, paths["small"], SMALL_BYTES), _write(plan, paths["large"], size)]
        for kind in plan.selected(KINDS):
            for budget in (None, BUDGET):
                given = {"kind": kind, "budget": budget, "small": str(paths["small"]), "repeats": plan.repeats}
                outcome = run("file_script", ["fit", str(paths["large"]), json.dumps(given)], plan.max_time)
                one = {**given, **_told(outcome)}
                details.append(one)
                print(KINDS[kind], budget or "in memory", one.get("median_seconds") or outcome.error, flush=True)
    title = f"A file of {details[1].get('bytes', size) / 1e9:.1f} GB under a budget of {BUDGET}, from a warm page cache"
    return [Table("file", title, COLUMNS, table_rows(details))], details


def table_rows(details: list[dict[str, Any]]) -> list[list[Any]]:
    """The rows of the table."""
    found = []
    fits = {(one["kind"], one["budget"]): one for one in details if "kind" in one}
    for kind, name in KINDS.items():
        pair = [fits.get((kind, budget), {}) for budget in (None, BUDGET)]
        if any(pair):
            seconds = [one.get("median_seconds") for one in pair]
            share = f"{seconds[0] / seconds[1]:.0%}" if all(seconds) else None
            objectives = [f"{one['objective']:.8g}" if "objective" in one else None for one in pair]
            found.append([name, *seconds, share, *(one.get("anonymous_gb") for one in pair), *objectives])
    return found


def _write(plan: Plan, path: Path, size: int) -> dict[str, Any]:
    outcome = run("file_script", ["write", str(path), json.dumps({"bytes": size, "seed": SEED})], plan.max_time)
    print(f"{path.name}: {outcome.answer or outcome.error}", flush=True)
    return {"written": path.name, **_told(outcome)}


def _told(outcome: Outcome) -> dict[str, Any]:
    return {"error": outcome.error, **(outcome.answer or {})}
