"""Group-sparse multi-class models: lineal against its peers, and the experiments of Blondel, Seki & Uehara (2013).

    python -m benchmarks.sparse_multiclass [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT]
        [--quick] [--slow] [--lightning PYTHON] [--adelie PYTHON] [--seconds S]

Parts: lightning, peers, weak, figures, table2, screening, amazon. Tables go to the screen, to the JSON file (with all
that was tried) and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, markdown_table, print_table, write_json
from benchmarks.sparse_multiclass import amazon, figures, lightning, peers, plots, screening, table2, weak
from benchmarks.sparse_multiclass.problems import Plan

PARTS: dict[str, Any] = {
    "lightning": lightning, "peers": peers, "weak": weak, "figures": figures, "table2": table2,
    "screening": screening, "amazon": amazon,
}  # fmt: skip
DRAWN = {"figures": plots.curves, "table2": plots.trade_off}


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    plan = Plan(
        arguments.data, arguments.quick, arguments.slow, arguments.match, lightning=arguments.lightning,
        adelie=arguments.adelie, limit=arguments.seconds,
    )  # fmt: skip
    payload: dict[str, Any] = {"quick": plan.is_quick, "seconds": {}}
    pages: list[str] = []
    for part in arguments.only:
        start = time.perf_counter()
        tables, details = PARTS[part].rows_of(plan)
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
    parser.add_argument("--json", type=Path, default=RESULTS / "sparse_multiclass.json")
    parser.add_argument("--plots", type=Path, default=RESULTS / "sparse_multiclass")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--match", default="", help="only rows whose data has this text")
    parser.add_argument("--quick", action="store_true", help="small data, few repetitions: a test of the scripts")
    parser.add_argument("--slow", action="store_true", help="lightning without shrinking, too")
    parser.add_argument("--lightning", metavar="PYTHON", help="an interpreter that has sklearn-contrib-lightning")
    parser.add_argument("--adelie", metavar="PYTHON", help="an interpreter that has adelie")
    parser.add_argument("--seconds", type=float, help="of one run of the figures at most (60, with --quick 10)")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only if part not in PARTS]
    if unknown:
        parser.error(f"--only {unknown[0]}: the parts are {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
