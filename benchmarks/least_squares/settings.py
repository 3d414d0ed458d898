"""What a validation split chooses for images: bandwidth, stress, ridge, and how blocks are fitted.

All on the training rows, of which a sixth is held out. The table shows what `problems` has beside what is best. One
after the other, the others as they are in `problems`: first four blocks of 1024 features for every bandwidth, stress
and ridge, then every update and block size for an equal time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.least_squares import ours
from benchmarks.least_squares.problems import ALPHA, COMPONENTS, SCALE, STRESS, Plan, Sets, Table, split
from lineal.features import Chain, PrincipalComponents, RandomFourier

TITLE = "Errors (%) of a sixth of the training rows by setting"
COLUMNS = ("data", "setting", "errors", "best", "in use")
SCALES = (0.25, 0.4, 0.6, 0.85, 1.2)
STRESSES = (0.0, 0.15, 0.3)
ALPHAS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
UPDATES = ("linear", "calibrated", "softmax")
BLOCKS = {"block_size": 1024, "n_blocks": 4}

#: Seconds of a fit that compares updates and block sizes, unless --seconds says otherwise.
SECONDS = 60.0


def rows_of(plan: Plan) -> tuple[list[Table], dict[str, Any]]:
    """The table, and for the file every error."""
    table: list[list[Any]] = []
    details: dict[str, Any] = {}
    for name in plan.selected("MNIST", "Fashion-MNIST"):
        rows = split(plan.load(name))
        found = {**_features(rows, plan.is_quick), **_fits(rows, plan)}
        details[name] = {what: {str(key): error for key, error in errors.items()} for what, errors in found.items()}
        in_use = {"scale": SCALE[name], "stress": STRESS}
        for setting, errors in found.items():
            best = min(errors, key=errors.__getitem__)
            shown = ", ".join(f"{key}: {error:.2f}" for key, error in errors.items())
            used = in_use.get(setting, ALPHA.get(setting.removeprefix("alpha, ")))
            table.append([name, setting, shown, str(best), None if used is None else f"{used:g}"])
            print(*table[-1], flush=True)
    return [Table("settings", TITLE, COLUMNS, table)], details


def _features(rows: Sets, is_quick: bool) -> dict[str, dict[Any, float]]:
    name = rows.name.split(",")[0]

    def error(scale: float, stress: float) -> float:
        maker = Chain(PrincipalComponents(COMPONENTS, stress=stress), RandomFourier(scale=scale))
        _, model = ours.stagewise(rows, generator=maker, alpha=ALPHA["linear"], random_state=0, **BLOCKS)
        return ours.error_of(model, rows)

    return {
        "scale": {scale: error(scale, STRESS) for scale in SCALES[:: 2 if is_quick else 1]},
        "stress": {stress: error(SCALE[name], stress) for stress in STRESSES[:: 2 if is_quick else 1]},
    }


def _fits(rows: Sets, plan: Plan) -> dict[str, dict[Any, float]]:
    name = rows.name.split(",")[0]

    def error(**options: Any) -> float:
        _, model = ours.stagewise(rows, generator=ours.generator(name), random_state=0, **options)
        return ours.error_of(model, rows)

    found: dict[str, dict[Any, float]] = {
        f"alpha, {update}": {
            alpha: error(update=update, alpha=alpha, **BLOCKS) for alpha in ALPHAS[:: 4 if plan.is_quick else 1]
        }
        for update in UPDATES
    }
    seconds = plan.limit or (3.0 if plan.is_quick else SECONDS)
    found[f"update and block size in {seconds:g} s"] = {
        f"{update} {size}": error(update=update, alpha=ALPHA[update], block_size=size, max_time=seconds)
        for update in UPDATES
        for size in (512, 1024, 2048)
    }
    return found
