"""`lineal convert`: any readable file into the binary layout, which opens without reading it."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS_DATA, WRITES, note_header
from lineal.cli.flags import flags
from lineal.cli.messages import say
from lineal.data.options import ReadOptions


@flags(reading=ReadOptions)
def convert(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="File to convert, a quoted glob, or - for standard input."),
        READS_DATA,
    ],
    destination: Annotated[
        str, typer.Argument(metavar="DESTINATION", help="File to write; its name must end with .arrow."), WRITES
    ],
    json: show.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Convert a file to one that opens at once.

    The result is an Arrow file in lineal's binary layout, which can be larger than memory.
    """
    from lineal.data.binary.layout import convert as convert_file
    from lineal.data.binary.layout import open_layout

    start = time.perf_counter()
    convert_file(source, destination, **reading)
    seconds = time.perf_counter() - start
    data = open_layout(destination, trusted=True, mapped="yes")
    note_header(source, data, reading)
    if data.bad_lines:
        say(f"warning: {data.bad_lines} malformed lines of {source} were skipped")
    is_sparse = hasattr(data.X, "indptr")
    result = {
        "file": destination,
        "rows": len(data),
        "columns": int(data.X.shape[1]),
        "layout": "sparse" if is_sparse else "dense",
        "stored_values": int(data.X.indptr[-1]) if is_sparse else int(data.X.size),
        "bytes": os.path.getsize(destination),
        "bad_lines": data.bad_lines,
        "seconds": seconds,
    }
    if json:
        show.as_json(result)
    else:
        show.pairs("lineal convert", {name.replace("_", " "): value for name, value in result.items()})
