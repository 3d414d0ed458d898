"""Figure 1 of the paper: MNIST test error of stagewise regression against time, updates and block sizes.

Every fit runs undisturbed for an equal time. The test rows go through the blocks afterwards, untimed. The seconds of a
point count from the call of `fit`: principal components and bandwidth are in them.
"""

from __future__ import annotations

from typing import Any

from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import ALPHA, Plan, Table

TITLE = "MNIST test error (%) of stagewise regression after a time"
SIZES = (512, 1024, 2048)
UPDATES: dict[str, dict[str, Any]] = {
    "linear": {},
    "calibrated": {},
    "softmax": {},
    "softmax, 8 iterations": {"update": "softmax", "alpha": 1e-7, "inner_iter": 8},
}

#: Seconds of a fit, and the shares of them that the table shows.
SECONDS, QUICK_SECONDS = 180.0, 4.0
SHARES = (1 / 18, 1 / 6, 1 / 3, 2 / 3, 1.0)


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file and the plot every point."""
    limit = plan.limit or (QUICK_SECONDS if plan.is_quick else SECONDS)
    times = [share * limit for share in SHARES]
    columns = ("update", "block size", *(f"{seconds:.3g} s" for seconds in times), "blocks", "features", "to 1.5 %, s",
               "to 1.2 %, s")  # fmt: skip
    sets, table = plan.load("MNIST"), []
    details: dict[str, Any] = {"warm_up_seconds": ours.warm_up(plan), "curves": {}}
    for name, given in UPDATES.items():
        options = {"update": name, "alpha": ALPHA.get(name), **given}
        for size in SIZES:
            label = f"{name} {size}"
            if plan.match not in label:
                continue
            seconds, model = ours.stagewise(
                sets, generator=ours.generator("MNIST"), block_size=size, max_time=limit, random_state=0, **options,
            )  # fmt: skip
            curve = details["curves"][label] = ours.curve_of(seconds, model, sets)
            shown = [ours.at_time(curve, one) for one in times]
            last = curve[-1] if curve else {"blocks": 0, "features": 0}
            soon = [(ours.first_below(curve, error) or {}).get("seconds") for error in (1.5 + 1e-9, 1.2 + 1e-9)]
            table.append([name, size, *(None if one is None else f"{one:.2f}" for one in shown), last["blocks"],
                          last["features"], *soon])  # fmt: skip
            print(*table[-1], flush=True)
    return [Table("figure1", TITLE, columns, table)], details
