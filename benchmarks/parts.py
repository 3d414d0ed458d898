"""Benchmarks of several parts: one parser, and one loop that prints, draws and writes after each part.

A part is a module with `rows_of(plan)`, which gives tables (name, title, columns, rows) and everything that was tried.

    python -m benchmarks.parts RESULT.json    # the tables of a result as Markdown, for the documentation
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, markdown_table, print_table, write_json


def parser_of(text: str, name: str, parts: Iterable[str]) -> argparse.ArgumentParser:
    """A parser with the flags that all of them have; `name` is that of the folder."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, default=RESULTS / f"{name}.json")
    parser.add_argument("--plots", type=Path, default=RESULTS / name)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(parts), help=f"of {','.join(parts)}")
    parser.add_argument("--match", default="", help="only rows whose data or problem has this text")
    parser.add_argument("--quick", action="store_true", help="small data, short runs: a test of the scripts")
    return parser


def parsed(parser: argparse.ArgumentParser, parts: Iterable[str]) -> argparse.Namespace:
    """The arguments; unknown parts are refused."""
    arguments = parser.parse_args()
    unknown = [part for part in arguments.only if part not in parts]
    if unknown:
        parser.error(f"--only {unknown[0]}: the parts are {', '.join(parts)}")
    return arguments


def run(name: str, plan: Any, arguments: argparse.Namespace, drawn: dict[str, Any]) -> None:
    """Measure, print, draw, write."""
    payload: dict[str, Any] = {"quick": plan.is_quick, "seconds": {}}
    for part in arguments.only:
        start = time.perf_counter()
        tables, details = importlib.import_module(f"benchmarks.{name}.{part}").rows_of(plan)
        payload[part] = {"tries": details}
        for table, title, columns, rows in tables:
            if rows:
                print_table(title, columns, rows)
                payload[part][table] = {"title": title, "columns": columns, "rows": rows}
        for path in drawn[part](arguments.plots, details) if part in drawn else ():
            print(path)
        payload["seconds"][part] = time.perf_counter() - start
        write_json(arguments.json, payload)
        arguments.json.with_suffix(".md").write_text(markdown(payload))
        print(f"{part}: {payload['seconds'][part]:.0f} s in all", flush=True)


def markdown(payload: dict[str, Any]) -> str:
    """The tables of a result as Markdown."""
    found = [one for part in payload.values() if isinstance(part, dict) for one in part.values()]
    tables = [one for one in found if isinstance(one, dict) and "rows" in one]
    return "\n".join(markdown_table(one.get("title", ""), one["columns"], one["rows"]) for one in tables)


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
