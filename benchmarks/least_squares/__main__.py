"""Dense, ill-conditioned data: lineal's least squares against its peers, and the experiments of Agarwal et al. (2014).

    python -m benchmarks.least_squares [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT]
        [--quick] [--slow] [--seconds S]

Parts: settings, table1, figure1, figure2, mnist, softmax, cifar, spectra, text, conditioning. Tables go to the screen,
to the JSON file (with all that was tried) and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, markdown_table, print_table, write_json
from benchmarks.least_squares import plots
from benchmarks.least_squares.problems import Plan

PARTS = (
    "settings", "table1", "figure1", "figure2", "mnist", "softmax", "cifar", "spectra", "text", "conditioning",
)  # fmt: skip
DRAWN: dict[str, Any] = {
    "figure1": plots.figure1, "figure2": plots.figure2, "mnist": plots.mnist, "cifar": plots.figure3,
    "spectra": plots.figure4, "conditioning": plots.conditioning,
}  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    plan = Plan(arguments.data, arguments.quick, arguments.slow, arguments.match, arguments.seconds)
    payload: dict[str, Any] = {"quick": plan.is_quick, "seconds": {}}
    pages: list[str] = []
    for part in arguments.only:
        start = time.perf_counter()
        tables, details = importlib.import_module(f"benchmarks.least_squares.{part}").rows_of(plan)
        payload[part] = {"tries": details}
        for name, title, columns, rows in tables:
            if rows:
                print_table(title, columns, rows)
                pages.append(markdown_table(title, columns, rows))
                payload[part][name] = {"columns": columns, "rows": rows}
        for path in DRAWN[part](arguments.plots, details) if part in DRAWN else ():
            print(path)
        payload["seconds"][part] = time.perf_counter() - start
        write_json(arguments.json, payload)
        arguments.json.with_suffix(".md").write_text("\n".join(pages))
        print(f"{part}: {payload['seconds'][part]:.0f} s in all", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, default=RESULTS / "least_squares.json")
    parser.add_argument("--plots", type=Path, default=RESULTS / "least_squares")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--match", default="", help="only rows whose data or method has this text")
    parser.add_argument("--quick", action="store_true", help="small data, short runs: a test of the scripts")
    parser.add_argument("--slow", action="store_true", help="more variants: Fourier features of pixels in table1")
    parser.add_argument(
        "--seconds", type=float, help="of one fit of a peer at most (900, with --quick 10); of one curve of figure1"
    )
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only if part not in PARTS]
    if unknown:
        parser.error(f"--only {unknown[0]}: the parts are {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
