"""`ReadOptions`: every option of the readers, in one place; the command line makes its flags and help from it."""

from __future__ import annotations

from dataclasses import dataclass

from lineal.data import formats
from lineal.system.options import option

MIB = 1 << 20

#: Texts of a CSV file that mean that a cell is missing, beside no text at all.
NULLS = ("?", "NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class ReadOptions:
    """How a file becomes a `Dataset`. No option is ignored: one that does not apply to a format is refused by name."""

    format: str = option("auto", f"file format: {', '.join(formats.NAMES)}")
    dtype: str = option("float64", "precision of the values: float64 or float32")
    n_jobs: int | None = option(None, "number of threads; None or -1 means all cores")
    block_bytes: int = option(64 * MIB, "number of bytes per block if a file is read block by block")
    max_bad_lines: int = option(0, "number of malformed lines to skip before giving up")
    labels: bool = option(True, "read labels and weights; off for rows to predict, which do not need them")
    label: str | None = option(None, "label column of a table (name, or position from 0)")

    # svmlight
    index_base: str = option("auto", "first feature index of an svmlight file: 0, 1, or auto (1 unless index 0 occurs)")
    n_features: int | None = option(None, "number of columns; None takes the largest index")

    # Vowpal Wabbit text, and text in the columns of tables
    bits: int = option(18, "hashed features go to 2**bits columns")
    ngram: str | int = option(
        1,
        "text: also join up to this many words that follow each other; for some namespaces or columns, text=2,title=3",
    )
    skips: int = option(0, "text: number of words that an n-gram may leave out in between")

    # tables (CSV, JSON lines, Parquet, Arrow)
    weight: str | None = option(None, "weight column of a table (name, or position from 0)")
    ignore: str | None = option(None, "columns of a table to leave out, separated by commas")
    id: str | None = option(None, "column of a table that identifies its rows, which is not a feature")
    text: str | None = option(None, "columns of a table that hold text, whose words become columns (a.b: field b of a)")
    categorical: str | None = option(None, "columns of a table whose values are categories, also if they are numbers")
    numeric: str | None = option(None, "columns of a table that hold numbers; anything else in them is an error")
    levels: str = option("onehot", "categories become one-hot columns (onehot) or 2**bits hashed columns (hash)")
    rare: int | None = option(
        None,
        "categories in fewer rows share one column; None: in fewer than 5, if a column has more than 100 categories",
    )
    scale: str = option("none", "columns of numbers: as they are (none), or with mean 0 and variance 1 (standard)")
    missing: str = option(
        "indicator",
        "missing cells: indicator (the mean and a 0/1 column, or a category of their own), mean, zero, or error",
    )
    na: str | None = option(
        None,
        f"texts of a CSV file that mean a missing cell, separated by commas; None: {', '.join(NULLS)}, and no text",
    )
    delimiter: str | None = option(None, "separator of a CSV file; None detects one of , ; tab |")
    names: str | None = option(
        None, "names of the columns of a CSV file without a header, separated by commas; with header=yes instead of it"
    )
    header: str = option("auto", "whether the first line of a CSV file holds column names: auto, yes, no")

    # the binary layout, and .npy files
    mapped: str = option(
        "auto", "map converted and .npy files into memory instead of reading them: auto (if large), yes, no"
    )
    trusted: bool = option(False, "skip the check that the column indices of a converted file are in range")

    @property
    def nulls(self) -> list[str]:
        """The texts of a CSV file that mean a missing cell."""
        return ["", *(NULLS if self.na is None else listed(self.na))]


def listed(names: str | None) -> list[str]:
    """The names in a text that separates them by commas."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]
