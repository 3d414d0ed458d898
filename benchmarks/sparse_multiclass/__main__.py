"""Group-sparse multi-class models: lineal against its peers, and the experiments of Blondel, Seki & Uehara (2013).

    python -m benchmarks.sparse_multiclass [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT]
        [--quick] [--slow] [--lightning PYTHON] [--adelie PYTHON] [--seconds S]
        [--splits N] [--rows N]

Parts: lightning, peers, weak, figures, table2, screening, amazon. Tables go to the screen, to the JSON file (with all
that was tried) and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

from benchmarks import parts
from benchmarks.sparse_multiclass import plots
from benchmarks.sparse_multiclass.problems import Plan

PARTS = ("lightning", "peers", "weak", "figures", "table2", "screening", "amazon")
DRAWN = {"figures": plots.curves, "table2": plots.trade_off}


def main() -> None:
    """Measure, print, write."""
    parser = parts.parser_of(__doc__ or "", "sparse_multiclass", PARTS)
    parser.add_argument("--slow", action="store_true", help="lightning without shrinking, too")
    parser.add_argument("--lightning", metavar="PYTHON", help="an interpreter that has sklearn-contrib-lightning")
    parser.add_argument("--adelie", metavar="PYTHON", help="an interpreter that has adelie")
    parser.add_argument("--seconds", type=float, help="of one fit at most (120; of the figures 60; with --quick less)")
    parser.add_argument("--splits", type=int, default=3, help="of Table 2")
    parser.add_argument("--rows", type=int, help="of a set at most, in Table 2 and screening")
    arguments = parts.parsed(parser, PARTS)
    plan = Plan(
        arguments.data, arguments.quick, arguments.slow, arguments.match, lightning=arguments.lightning,
        adelie=arguments.adelie, limit=arguments.seconds,
        n_splits=arguments.splits, n_rows=arguments.rows,
    )  # fmt: skip
    parts.run("sparse_multiclass", plan, arguments, DRAWN)


if __name__ == "__main__":
    main()
