"""`lineal convert`: turn any file that can be read into one that opens without parsing."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from lineal.cli import show
from lineal.cli.files import READS_DATA, WRITES, note_header
from lineal.cli.flags import flags
from lineal.cli.terminal import say
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
    """Convert a file to one that opens without parsing.

    The result is an Arrow file in lineal's binary layout. It can be larger than memory.
    """
    from scipy import sparse

    from lineal.data.binary.layout import convert as convert_file
    from lineal.data.binary.layout import open_layout

    start = time.perf_counter()
    convert_file(source, destination, **reading)
    seconds = time.perf_counter() - start
    data = open_layout(destination, trusted=True, mapped="yes")
    note_header(source, data, reading)
    if data.bad_lines:
        say(f"warning: {data.bad_lines} malformed lines of {source} were skipped")
    is_sparse = sparse.issparse(data.X)
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
        show.pairs("lineal convert", result)
