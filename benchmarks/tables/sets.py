"""Tables of mixed columns as a CSV file for training and one for testing."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

NAMES = ("adult", "bank_additional", "generated")

#: Rows of the generated table, of which a quarter is for testing, and rows of any table with --quick.
GENERATED_ROWS, QUICK_ROWS = 200_000, 8000

#: Numbers of categories of its columns.
LEVELS = (3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 800, 1200, 2000, 3000, 5000)


class Files(NamedTuple):
    """A table for training and one for testing, its label and its columns of dates."""

    train: str
    test: str
    label: str
    delimiter: str = ","
    dates: tuple[str, ...] = ()


def files_of(name: str, data: Path, folder: Path, is_quick: bool) -> Files:
    """Write the files of a table to a folder."""
    most = QUICK_ROWS if is_quick else None
    if name == "generated":
        train, test = _generated(most or GENERATED_ROWS)
        found = Files(str(folder / "train.csv"), str(folder / "test.csv"), "bought", dates=("since",))
        train.to_csv(found.train, index=False)
        test.to_csv(found.test, index=False)
        return found
    if name == "adult":
        found = Files(str(folder / "train.csv"), str(folder / "test.csv"), "income")
        for part in ("train", "test"):
            with gzip.open(data / "adult" / f"{part}.csv.gz", "rt") as file:
                (folder / f"{part}.csv").write_text("".join(list(file)[: None if most is None else most + 1]))
        return found
    found = Files(str(folder / "train.csv"), str(folder / "test.csv"), "y", ";")
    with gzip.open(data / "bank_additional" / "bank-additional-full.csv.gz", "rt") as file:
        head, *rows = csv.reader(file, delimiter=";")
    leak = head.index("duration")  # known only after the call
    order = np.random.default_rng(0).permutation(len(rows))
    for path, chosen in ((found.train, order[len(rows) // 4 :]), (found.test, order[: len(rows) // 4])):
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerows(row[:leak] + row[leak + 1 :] for row in (head, *(rows[i] for i in chosen[:most])))
    return found


def _generated(n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """40 columns: 33 of categories by Zipf's law, 6 of numbers, a date; cells are missing in every other column.

    The log-odds of the label are a sum of effects: of categories, of missing cells, of standardised numbers (of one the
    logarithm), of the month and of time.
    """
    rng = np.random.default_rng(22)
    columns: dict[str, object] = {}
    score = np.zeros(n)
    for j in range(33):
        n_levels = LEVELS[j % len(LEVELS)]
        shares = 1.0 / np.arange(1, n_levels + 1) ** rng.uniform(0.7, 1.4)
        codes = rng.choice(n_levels, n, p=shares / shares.sum())
        spread = rng.choice([0.0, 0.15, 0.4], p=[0.3, 0.4, 0.3])
        names = np.array([f"{chr(97 + j % 26)}{code:x}" for code in rng.permutation(16 * n_levels)[:n_levels]], object)
        values, effects = names[codes], spread * rng.standard_normal(n_levels)[codes]
        if j % 2:
            gone = rng.random(n) < rng.uniform(0.01, 0.15)
            values[gone], effects[gone] = None, spread * rng.standard_normal()
        columns[f"c{j:02d}"] = values
        score += effects
    for j, (unit, digits) in enumerate(((1e6, 0), (1000.0, 1), (1.0, 4), (1e-3, 7), (40.0, 0), (1e4, 2))):
        z = rng.standard_normal(n)
        values = np.round(unit * (np.exp(z) if j == 5 else z + rng.uniform(-3, 3)), digits)
        if j % 2:
            values[rng.random(n) < 0.05] = np.nan
        columns[f"x{j}"] = values
        score += rng.uniform(0.1, 0.4) * z
    days = rng.integers(0, 3 * 365, n)
    dates = np.datetime64("2021-01-01") + days
    months = (dates.astype("datetime64[M]").astype(int) % 12).astype(int)
    columns["since"] = dates.astype(str)
    score += 0.3 * days / 365 + 0.3 * rng.standard_normal(12)[months]
    label = rng.logistic(size=n) < score - np.quantile(score, 0.8)
    frame = pd.DataFrame({**columns, "bought": np.where(label, "yes", "no")})
    return frame[: n * 3 // 4], frame[n * 3 // 4 :]
