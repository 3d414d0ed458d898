"""lineal against LIBLINEAR and others at equal objectives, and its algorithms against each other.

    python -m benchmarks.liblinear [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT] [--quick]
        [--slow]

Parts: ratios, softmax, defaults, memory, curves. Tables go to the screen, to the JSON file (with all that was tried)
and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, markdown_table, print_table, write_json
from benchmarks.liblinear import curves, defaults, memory, plots, ratios, softmax
from benchmarks.liblinear.problems import Plan

TABLES = {"ratios": ratios, "softmax": softmax, "defaults": defaults, "memory": memory}
PARTS = (*TABLES, "curves")


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    plan = Plan(arguments.data, arguments.quick, arguments.slow, arguments.match)
    payload: dict[str, Any] = {"quick": plan.is_quick}
    pages: list[str] = []

    def keep(part: str, title: str, columns: tuple[str, ...], rows: list[list[Any]]) -> None:
        if rows:
            print_table(title, columns, rows)
            pages.append(markdown_table(title, columns, rows))
            payload[part] = {"columns": columns, "rows": rows, **payload.get(part, {})}

    for part in arguments.only:
        start = time.perf_counter()
        if part == "curves":
            tables, found = curves.rows_of(plan)
            payload["points"] = found
            for name, (title, columns) in (
                ("curves", curves.CURVES), ("accuracy", curves.ACCURACY), ("cost", curves.COST),
            ):  # fmt: skip
                keep(name, title, columns, tables[name])
            for path in plots.draw(arguments.plots, found):
                print(path)
        else:
            rows, details = TABLES[part].rows_of(plan)
            payload[part] = {"tries": details}
            keep(part, TABLES[part].TITLE, TABLES[part].COLUMNS, rows)
        payload.setdefault("seconds", {})[part] = time.perf_counter() - start
        write_json(arguments.json, payload)
        arguments.json.with_suffix(".md").write_text("\n".join(pages))
        print(f"{part}: {time.perf_counter() - start:.0f} s in all", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, default=RESULTS / "liblinear.json")
    parser.add_argument("--plots", type=Path, default=RESULTS / "liblinear")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--match", default="", help="only rows whose data and problem have this text")
    parser.add_argument("--quick", action="store_true", help="small data, few repetitions: a test of the scripts")
    parser.add_argument("--slow", action="store_true", help="all rows everywhere, and scikit-learn's saga")
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only if part not in PARTS]
    if unknown:
        parser.error(f"--only {unknown[0]}: the parts are {', '.join(PARTS)}")
    return arguments


if __name__ == "__main__":
    main()
