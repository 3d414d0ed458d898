"""lineal on workers and on files larger than memory, against Spark MLlib, dask-ml and itself.

    python -m benchmarks.distributed [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT]
        [--quick] [--slow] [--peers PYTHON] [--seconds S] [--repeats N] [--kdd-rows N] [--file-gb GB]
        [--rows N] [--scratch DIR]

Parts: mapping, rounds, peers, faults, scaling, file, online, averages, methods, model, apple. Tables go to the screen,
to the JSON file (with all that was tried) and, as Markdown, beside it; the files are written anew after each part.
Spark needs Java 17.
"""

from __future__ import annotations

import signal
import sys

from benchmarks import parts
from benchmarks.distributed import plots
from benchmarks.distributed.problems import Plan

PARTS = ("mapping", "rounds", "peers", "faults", "scaling", "file", "online", "averages", "methods", "model", "apple")
DRAWN = {"peers": plots.peers, "scaling": plots.scaling, "methods": plots.methods}


def main() -> None:
    """Measure, print, write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # contestants and files are cleaned up
    parser = parts.parser_of(__doc__ or "", "distributed", PARTS)
    parser.add_argument("--slow", action="store_true", help="dask-ml's Newton method with many features, too")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with pyspark and dask-ml, if not this one")
    parser.add_argument("--seconds", type=float, help="of one contestant at most, with all of its fits (3600)")
    parser.add_argument("--repeats", type=int, help="timed fits per contestant, of which the median counts (3)")
    parser.add_argument("--kdd-rows", type=int, default=100_000, help="rows of kddcup99, at random (of 494,000)")
    parser.add_argument("--file-gb", type=float, default=4.0, help="size of the generated file")
    parser.add_argument("--rows", type=int, default=10_000_000, help="generated clicks, of 125 bytes each")
    parser.add_argument("--scratch", metavar="DIR", help="where files are written: 2.5 times their size must be free")
    arguments = parts.parsed(parser, PARTS)
    plan = Plan(
        arguments.data, arguments.quick, arguments.slow, arguments.match, peers_python=arguments.peers,
        limit=arguments.seconds, kdd_rows=arguments.kdd_rows, file_gb=arguments.file_gb, rows=arguments.rows,
        scratch=arguments.scratch, timed_fits=arguments.repeats,
    )  # fmt: skip
    parts.run("distributed", plan, arguments, DRAWN)


if __name__ == "__main__":
    main()
