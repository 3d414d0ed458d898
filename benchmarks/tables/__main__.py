"""Tables beside scikit-learn, skrub and LightGBM: from a CSV file to the AUC, and classes that are not linear.

    python -m benchmarks.tables [--data DIR] [--json PATH] [--only PART,…] [--match TEXT] [--quick] [--slow]
        [--peers PYTHON]

- mixed: tables of categories, numbers, dates and missing cells, from CSV files to the AUC of held-out rows, in whole
  processes with cached kernels: `lineal train --validate`, `TableClassifier`, a careful scikit-learn pipeline and
  skrub's `tabular_pipeline(LogisticRegression())`.
- curved: standardised tables of numbers: error and seconds of `StagewiseClassifier()`, `LinearClassifier()`, `SVC`
  with the best C of three, and LightGBM's defaults, in warm processes.

`--peers` names an interpreter in whose environment skrub and LightGBM are installed; without it their columns are
empty. `--slow` adds images to the second part. Tables go to the screen, to the JSON file (with all that was measured)
and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

import warnings

from benchmarks import parts
from benchmarks.tables.plan import Plan

PARTS = ("mixed", "curved")


def main() -> None:
    """Measure, print, write."""
    parser = parts.parser_of(__doc__ or "", "tables", PARTS)
    parser.add_argument("--slow", action="store_true", help="images as well, for which SVC takes minutes")
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has skrub and LightGBM")
    arguments = parts.parsed(parser, PARTS)
    warnings.simplefilter("ignore")  # peers that stop at their limits say so every time
    plan = Plan(arguments.data, arguments.quick, arguments.slow, arguments.match, arguments.peers)
    parts.run("tables", plan, arguments, {})


if __name__ == "__main__":
    main()
