"""How many rows are held out where nothing is said: names and numbers for options, in a file without NumPy."""

from __future__ import annotations

#: The value of `validation_fraction` by which the number of rows decides.
AUTO = "auto"

#: Its fraction, its largest number of rows, and the number of rows below which none are held out.
HELD_OUT, MOST_HELD_OUT, FEWEST_ROWS = 0.1, 10_000, 100


def share(fraction: float | str | None, rows: int) -> float:
    """Share of so many rows to hold out; zero for none."""
    if fraction != AUTO:
        return float(fraction or 0.0)
    return min(HELD_OUT, MOST_HELD_OUT / rows) if rows >= FEWEST_ROWS else 0.0
