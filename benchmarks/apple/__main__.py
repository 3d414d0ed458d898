"""Products of features that grow while learning: lineal against Vowpal Wabbit, as in Agarwal et al. (2014).

    python -m benchmarks.apple [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT] [--quick]
        [--rows N] [--seed S] [--keep DIR]

Parts: figures, target. Tables go to the screen, to the JSON file (with all that was tried) and, as Markdown, beside it;
the files are written anew after each part. All runs are on one thread; seconds are those of the processor.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import parts
from benchmarks.apple import plots
from benchmarks.apple.problems import MAX_ROWS, Plan

PARTS = ("figures", "target")
DRAWN = {"figures": plots.figures}


def main() -> None:
    """Measure, print, write."""
    parser = parts.parser_of(__doc__ or "", "apple", PARTS)
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="of a set at most")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and their split")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a file a set: what is there is not measured again")
    arguments = parts.parsed(parser, PARTS)
    plan = Plan(
        arguments.data, arguments.quick, arguments.match, arguments.rows, arguments.seed, arguments.keep
    )  # fmt: skip
    parts.run("apple", plan, arguments, DRAWN)


if __name__ == "__main__":
    main()
