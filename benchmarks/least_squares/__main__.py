"""Dense, ill-conditioned data: lineal's least squares against its peers, and the experiments of Agarwal et al. (2014).

    python -m benchmarks.least_squares [--data DIR] [--json PATH] [--plots DIR] [--only PART,…] [--match TEXT]
        [--quick] [--slow] [--seconds S] [--sizes N,…]

Parts: settings, table1, figure1, figure2, mnist, softmax, cifar, spectra, text, conditioning. Tables go to the screen,
to the JSON file (with all that was tried) and, as Markdown, beside it; the files are written anew after each part.
"""

from __future__ import annotations

from typing import Any

from benchmarks import parts
from benchmarks.least_squares import plots
from benchmarks.least_squares.problems import Plan

PARTS = (
    "settings", "table1", "figure1", "figure2", "mnist", "softmax", "cifar", "spectra", "text", "conditioning",
)  # fmt: skip
DRAWN: dict[str, Any] = {
    "figure1": plots.figure1, "figure2": plots.figure2, "mnist": plots.mnist, "cifar": plots.figure3,
    "spectra": plots.figure4, "conditioning": plots.conditioning,
}  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    parser = parts.parser_of(__doc__ or "", "least_squares", PARTS)
    parser.add_argument("--slow", action="store_true", help="more variants: Fourier features of pixels in table1")
    parser.add_argument(
        "--seconds",
        type=float,
        help="of one fit of a peer at most (900, with --quick 10), of one curve of figure1 or fit of settings",
    )
    parser.add_argument(
        "--sizes", type=lambda text: tuple(map(int, text.split(","))), default=(), help="features in figure2"
    )
    arguments = parts.parsed(parser, PARTS)
    plan = Plan(arguments.data, arguments.quick, arguments.slow, arguments.match, arguments.seconds, arguments.sizes)
    parts.run("least_squares", plan, arguments, DRAWN)


if __name__ == "__main__":
    main()
