"""How fast text becomes a Dataset, compared with scikit-learn, and what opening a converted file costs.

    python -m benchmarks.readers [--mb 120] [--layout-mb 1300] [--json PATH]

Each file consists of about 6 MB of distinct lines, repeated: sparse rows like those of tf-idf, with 6 significant
digits or with full precision. Both readers run in this process, on a warm page cache; their results must be equal.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from benchmarks.common import RESULTS, measure, print_table, write_json
from lineal.core.threads import available_cores
from lineal.data.binary.layout import convert
from lineal.data.options import ReadOptions
from lineal.data.text import svmlight, vw

MB = 1_000_000
DISTINCT_BYTES = 6 * MB
VOCABULARY = 100_000

OPEN_LAYOUT = """
import sys, resource
import lineal.data.binary.layout as layout
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
warm = layout.open_layout(sys.argv[1])
before = resident()
data = layout.open_layout(sys.argv[2])
rows = len(data)
print(resident() - before, rows)
"""


def tfidf_rows() -> Iterator[tuple[int, list[int], list[float]]]:
    """Rows as (label, ascending feature numbers, values of norm 1): about 70 features of a Zipf-like vocabulary."""
    rng = np.random.default_rng(0)
    while True:
        columns = np.unique((VOCABULARY * rng.random(rng.poisson(90) + 5) ** 3).astype(np.int64) + 1)
        values = rng.gamma(2.0, 1.0, columns.size)
        yield int(rng.choice([-1, 1])), columns.tolist(), (values / np.linalg.norm(values)).tolist()


def svmlight_line(form: str) -> Callable[[int, list[int], list[float]], str]:
    """A function that writes a row as an svmlight line, with values in the given %-format."""
    pair = f"%d:{form}"

    def line(label: int, columns: list[int], values: list[float]) -> str:
        return f"{label} " + " ".join(pair % feature for feature in zip(columns, values)) + "\n"

    return line


def vw_line(label: int, columns: list[int], values: list[float]) -> str:
    """A row as a VW line with words as features, half of them in a second namespace."""
    words = [f"word{column}:{value:.6g}" for column, value in zip(columns, values)]
    half = len(words) // 2
    return f"{label} |title {' '.join(words[:half])} |body {' '.join(words[half:])}\n"


def write_file(path: Path, megabytes: float, line: Callable[[int, list[int], list[float]], str]) -> Path:
    """Write a file of at least this size."""
    lines, size = [], 0
    for row in tfidf_rows():
        lines.append(line(*row))
        size += len(lines[-1])
        if size >= min(DISTINCT_BYTES, megabytes * MB):
            break
    text = "".join(lines).encode()
    with open(path, "wb") as file:
        for _ in range(int(np.ceil(megabytes * MB / len(text)))):
            file.write(text)
    return path


def check_equal(ours: Any, theirs: Any) -> None:
    """Raise unless lineal's Dataset equals scikit-learn's (X, y) bit for bit."""
    X, y = theirs
    pairs = ((ours.X.data, X.data), (ours.X.indices, X.indices), (ours.X.indptr, X.indptr), (ours.y, y))
    if ours.X.shape != X.shape or not all(np.array_equal(a, b) for a, b in pairs):
        raise AssertionError("lineal and scikit-learn read different data")


def bench_svmlight(path: Path, name: str, sklearn_repeats: int) -> list[dict[str, Any]]:
    """Time both readers on one file; lineal with one thread and with all cores."""
    megabytes = path.stat().st_size / MB
    check_equal(svmlight.read([str(path)], ReadOptions()), load_svmlight_file(str(path)))
    reference = measure(lambda: load_svmlight_file(str(path)), sklearn_repeats)
    rows = [result(name, "scikit-learn", 1, megabytes, reference, reference)]
    for jobs in sorted({1, available_cores()}):
        seconds = measure(lambda jobs=jobs: svmlight.read([str(path)], ReadOptions(n_jobs=jobs)), 3)  # type: ignore[misc]
        rows.append(result(name, "lineal", jobs, megabytes, seconds, reference))
    return rows


def bench_vw(path: Path) -> list[dict[str, Any]]:
    """Time the reader of VW text, for which Python has no other reader to compare with."""
    megabytes = path.stat().st_size / MB
    rows = []
    for jobs in sorted({1, available_cores()}):
        seconds = measure(lambda jobs=jobs: vw.read([str(path)], ReadOptions(n_jobs=jobs)), 3)  # type: ignore[misc]
        rows.append(result("VW text", "lineal", jobs, megabytes, seconds, None))
    return rows


def result(
    file: str, reader: str, threads: int, megabytes: float, seconds: float, reference: float | None
) -> dict[str, Any]:
    """One row of the table."""
    return {
        "file": file, "reader": reader, "threads": threads, "MB": megabytes, "seconds": seconds,
        "MB/s": megabytes / seconds, "ratio": None if reference is None else reference / seconds,
    }  # fmt: skip


def bench_layout(folder: Path, megabytes: float) -> dict[str, Any]:
    """Convert text to the binary layout, and measure the memory that opening the result adds to a process."""
    small = write_file(folder / "small.svm", 1, svmlight_line("%.6g"))
    text = write_file(folder / "large.svm", megabytes, svmlight_line("%.6g"))
    convert(small, folder / "small.arrow")
    start = time.perf_counter()
    convert(text, folder / "large.arrow")
    seconds = time.perf_counter() - start
    size = (folder / "large.arrow").stat().st_size
    command = [sys.executable, "-c", OPEN_LAYOUT, str(folder / "small.arrow"), str(folder / "large.arrow")]
    added, rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {
        "text MB": text.stat().st_size / MB, "layout MB": size / MB, "convert seconds": seconds,
        "rows": int(rows), "MB added by opening": int(added) / MB,
    }  # fmt: skip


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=120, help="size of each text file")
    parser.add_argument("--layout-mb", type=float, default=1300, help="size of the text that is converted; 0 for none")
    parser.add_argument("--data", help="not used: the files are made")
    parser.add_argument("--json", type=Path, default=RESULTS / "readers.json")
    parser.add_argument("--sklearn-repeats", type=int, default=1)
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm_svm = write_file(folder / "warm.svm", 0.1, svmlight_line("%.6g"))
        warm_vw = write_file(folder / "warm.vw", 0.1, vw_line)
        warm_up = measure(
            lambda: (svmlight.read([str(warm_svm)], ReadOptions()), vw.read([str(warm_vw)], ReadOptions())), 1
        )
        rows = []
        for name, form in (("svmlight, 6 digits", "%.6g"), ("svmlight, full precision", "%r")):
            path = write_file(folder / "data.svm", arguments.mb, svmlight_line(form))
            rows += bench_svmlight(path, name, arguments.sklearn_repeats)
        rows += bench_vw(write_file(folder / "data.vw", arguments.mb, vw_line))
        print_table("Text readers (equal results)", rows[0], (row.values() for row in rows))
        print(f"warm-up (compiling, or loading compiled kernels), not counted above: {warm_up:.2f} s")
        layout = bench_layout(folder, arguments.layout_mb) if arguments.layout_mb else None
    if layout:
        print_table("Binary layout", layout, [layout.values()])
    write_json(arguments.json, {"warm_up_seconds": warm_up, "readers": rows, "layout": layout})


if __name__ == "__main__":
    main()
