"""Figure 2 of the paper: MNIST by equal Fourier features, lineal beside VW, six LIBLINEAR variants and scikit-learn.

Everybody gets the same features, in memory. Strengths are chosen on held-out training rows, untimed: those of peers as
`peers` says, lineal's ridges in the same way. Stagewise regression makes its own features (of the same kind, as many,
in blocks of 1024), and their making is in its time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.least_squares import ours, peers
from benchmarks.least_squares.problems import ALPHA, Plan, Sets, Table, split

TITLE = "MNIST, equal Fourier features: test errors (%) and seconds of training"
COLUMNS = ("features", "who", "error", "seconds", "strength")
SIZES, QUICK_SIZES = (1000, 2000, 4000), (128, 256)
ALPHAS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
BLOCK = 1024


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file and the plots every fit."""
    details: dict[str, Any] = {"warm_up_seconds": ours.warm_up(plan), "fits": []}
    pixels = plan.load("MNIST", 3000, 1000)
    for size in plan.sizes or (QUICK_SIZES if plan.is_quick else SIZES):
        sets = ours.with_features(pixels, size)
        for found in _all(plan, pixels, sets, size):
            details["fits"].append({"features": size, **found})
            shown = "–" if found["error"] is None else f"{found['error']:.2f}"
            print(f"{size} {found['name']}: {shown} %, {found['seconds']} s, {found.get('note', '')}", flush=True)
    table = [
        [one["features"], one["name"], one["error"] and f"{one['error']:.2f}", one["seconds"] or one.get("note"),
         one.get("chosen")]
        for one in details["fits"]
    ]  # fmt: skip
    return [Table("figure2", TITLE, COLUMNS, table)], details


def _all(plan: Plan, pixels: Sets, sets: Sets, size: int) -> Any:
    for name in plan.selected(*(f"lineal, {method}" for method in ours.METHODS)):
        yield _ours(plan, sets, name)
    for update in plan.selected("linear", "calibrated", "softmax"):
        block = min(BLOCK, size // 2)
        seconds, model = ours.stagewise(
            pixels, generator=ours.generator("MNIST"), update=update, alpha=ALPHA[update], block_size=block,
            n_blocks=size // block, random_state=0,
        )  # fmt: skip
        error = ours.error_of(model, pixels)
        yield {"name": f"stagewise, {update}", "seconds": seconds, "error": error, "chosen": f"{ALPHA[update]:g}"}
    contestants = [*peers.LIBLINEAR.values(), peers.LOGISTIC, peers.RIDGE, peers.VW]
    with peers.Room(sets, plan) as room:
        for peer in contestants:
            if plan.match in peer.name:
                yield room.run(peer)


def _ours(plan: Plan, sets: Sets, name: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(ours.METHODS[name.removeprefix("lineal, ")])
    if options.get("link") == "softmax":
        options |= {"max_iter": 150, "tol": 1e-2}
    rows = split(sets, rows=peers.QUICK_ROWS if plan.is_quick else peers.CHOICE_ROWS)
    errors = {}
    for alpha in ALPHAS[2:4] if plan.is_quick else ALPHAS:
        _, model = ours.least_squares(rows, alpha=alpha, **options)
        errors[alpha] = rows.error(model.predict(rows.X_test))
    best = min(errors, key=errors.__getitem__)
    seconds, model = ours.least_squares(sets, alpha=best, **options)
    return {
        "name": name, "seconds": seconds, "error": sets.error(model.predict(sets.X_test)), "chosen": f"{best:g}",
        "validation": {str(alpha): error for alpha, error in errors.items()},
    }  # fmt: skip
