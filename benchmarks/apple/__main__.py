"""Products of features that grow while learning: lineal against Vowpal Wabbit, as in Agarwal et al. (2014).

    python -m benchmarks.apple [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT] [--quick]

Parts: figures, target. Tables go to the screen, to the JSON file (with all that was tried) and, as Markdown, beside it;
the files are written anew after each part. All runs are on one thread; seconds are those of the processor.
"""

from __future__ import annotations

from benchmarks import parts
from benchmarks.apple import plots
from benchmarks.apple.problems import Plan

PARTS = ("figures", "target")
DRAWN = {"figures": plots.figures}


def main() -> None:
    """Measure, print, write."""
    arguments = parts.parsed(parts.parser_of(__doc__ or "", "apple", PARTS), PARTS)
    parts.run("apple", Plan(arguments.data, arguments.quick, arguments.match), arguments, DRAWN)


if __name__ == "__main__":
    main()
