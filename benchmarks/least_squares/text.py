"""Table 2 of the paper: documents, where least squares is not the method of choice.

20newsgroups and the four largest topics of Reuters-21578 (in place of RCV1) as logarithmic term frequencies in rows of
length one. Strengths of peers are chosen as `peers` says; ridge and number of blocks of stagewise regression by
held-out training rows, too. LinearSVC's error is the one to match.
"""

from __future__ import annotations

from typing import Any

from benchmarks.least_squares import ours, peers
from benchmarks.least_squares.problems import Plan, Sets, Table, split
from lineal.features import FrequencyOrdered, GreedyResidual, RandomSubset

TITLE = "Documents: test errors (%) and seconds of training"
COLUMNS = ("data", "who", "error", "seconds", "strength", "the paper's error", "the paper's s")
MAKERS = {"FrequencyOrdered": FrequencyOrdered, "GreedyResidual": GreedyResidual, "RandomSubset": RandomSubset}
STAGEWISE = [
    ("FrequencyOrdered", "linear"), ("FrequencyOrdered", "calibrated"), ("GreedyResidual", "linear"),
    ("RandomSubset", "linear"),
]  # fmt: skip
ALPHAS = (3e-5, 1e-4, 3e-4, 1e-3)
BLOCK = 2048

#: Blocks at most: of 20newsgroups' hundred thousand columns the last ones hardly occur.
MAX_BLOCKS = 40

#: The paper's Table 2: seconds and errors, RCV1 for reuters.
PAPER = {
    "20newsgroups": {"VW": (2.5, 12.4), "LIBLINEAR": (27, 13.8), "stagewise": (40, 11.7)},
    "reuters-4": {"VW": (2.5, 2.75), "LIBLINEAR": (120, 2.73), "stagewise": (240, 2.77)},
}


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file everything that was tried."""
    table: list[list[Any]] = []
    details: dict[str, Any] = {"warm_up_seconds": ours.warm_up(plan)}
    for name in plan.selected(*PAPER):
        sets = plan.load(name, 2000, 1000)
        with peers.Room(sets, plan) as room:
            fits = [room.run(peer) for peer in (peers.LINEAR_SVC, *list(peers.LIBLINEAR.values())[:5], peers.VW)]
        fits += [_stagewise(plan, sets, kind, update) for kind, update in STAGEWISE]
        details[name] = fits
        for one in fits:
            table.append(_row(name, one))
            print(*table[-1], flush=True)
    return [Table("text", TITLE, COLUMNS, table)], details


def _stagewise(plan: Plan, sets: Sets, kind: str, update: str) -> dict[str, Any]:
    options = {"update": update, "block_size": 256 if plan.is_quick else BLOCK, "random_state": 0}
    blocks = 4 if plan.is_quick else MAX_BLOCKS
    rows = split(sets)
    errors = {}
    for alpha in ALPHAS[1:3] if plan.is_quick else ALPHAS:
        _, model = ours.stagewise(rows, generator=MAKERS[kind](), alpha=alpha, n_blocks=blocks, **options)
        for number, error in enumerate(ours.errors_by_block(model.model_, rows.X_test, rows.y_test)):
            errors[alpha, number] = error
    alpha, number = min(errors, key=errors.__getitem__)
    seconds, model = ours.stagewise(sets, generator=MAKERS[kind](), alpha=alpha, n_blocks=number, **options)
    return {
        "name": f"stagewise, {kind}, {update}", "seconds": seconds, "error": ours.error_of(model, sets),
        "chosen": f"{alpha:g}, {number} blocks", "validation": {f"{a:g}, {t}": e for (a, t), e in errors.items()},
    }  # fmt: skip


def _row(name: str, one: dict[str, Any]) -> list[Any]:
    seconds, error = PAPER[name].get(one["name"].replace(",", "").split()[0], (None, None))
    return [
        name, one["name"], one["error"] and f"{one['error']:.2f}", one["seconds"] or one.get("note"), one.get("chosen"),
        error, seconds,
    ]  # fmt: skip
