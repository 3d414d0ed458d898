"""Online learning against Vowpal Wabbit: text and cached passes in whole processes, and the quality of a linear model.

    python -m benchmarks.online [--data DIR] [--json PATH] [--megabytes N,…] [--only speed,quality] [--quick]

Speed: one pass of logistic loss with 18 bits over generated VW text, in processes of their own, with as many cores as
there are; seconds of the clock, the fastest of three runs. Start-up is the time of the same command on one line. Files
larger than about 150 MB repeat the same rows. "Cached" is VW's cache and lineal's converted file. VW's classes share
its 2^bits weights; each class of lineal has 2^bits. So with 20 classes VW runs with 23 bits, for about as many weights
in all, and once more with 18.
Quality: progressive loss of one pass over real sets, the same rows in the same order with the same settings.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.apple import problems
from benchmarks.common import RESULTS, markdown_table, measure, print_table, write_json
from lineal.core.threads import available_cores

SPEED = "One pass of online learning, logistic loss, 18 bits per class"
SPEED_COLUMNS = (
    "file", "MB", "what", "VW s", "lineal s", "whole process ratio", "without start-up ratio", "VW start s",
    "lineal start s", "VW loss", "lineal loss", "VW peak GB", "lineal peak GB",
)  # fmt: skip
QUALITY = "Progressive loss of one pass, logistic loss and the usual settings"
QUALITY_COLUMNS = ("data", "examples", "classes", "VW", "lineal", "difference %")
SETS = (
    "a9a",
    "w8a",
    "phoneme",
    "spambase",
    "magic04",
    "htru2",
    "segment",
    "satimage",
    "pendigits",
    "shuttle",
    "weather",
)
VW = (sys.executable, "-m", "vowpalwabbit", "--no_stdin", "--loss_function", "logistic")
LINEAL = (sys.executable, "-m", "lineal", "train", "--online")
BASE_ROWS, FEATURES = 250_000, 50
BITS, BITS_OF_ALL_CLASSES = 18, 23


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", type=Path, default=RESULTS / "online.json")
    parser.add_argument("--megabytes", type=lambda text: [int(size) for size in text.split(",")], default=[150, 1100])
    parser.add_argument("--only", type=lambda text: text.split(","), default=["speed", "quality"])
    parser.add_argument("--quick", action="store_true", help="small files: a test of the script")
    arguments = parser.parse_args()
    found: dict[str, Any] = {}
    pages = []
    for part, title, columns in (("speed", SPEED, SPEED_COLUMNS), ("quality", QUALITY, QUALITY_COLUMNS)):
        if part in arguments.only:
            rows = speed(arguments) if part == "speed" else quality(arguments)
            print_table(title, columns, rows)
            pages.append(markdown_table(title, columns, rows))
            found[part] = {"columns": columns, "rows": rows}
            write_json(arguments.json, found)
            arguments.json.with_suffix(".md").write_text("\n".join(pages))


# --- speed


def speed(arguments: argparse.Namespace) -> list[list[Any]]:
    """A row for every file, size and kind of pass."""
    table = []
    rows = 4000 if arguments.quick else BASE_ROWS
    with tempfile.TemporaryDirectory(prefix="lineal-online-") as name:
        folder = Path(name)
        for kind in ("numbers", "names", "classes"):
            base = folder / f"{kind}.vw"
            write_rows(base, kind, rows)
            sizes = [base.stat().st_size // 10**6] if kind == "classes" or arguments.quick else arguments.megabytes
            for size in sizes:
                path = _repeated(base, folder / f"{kind}-{size}.vw", size * 10**6)
                for bits in (BITS_OF_ALL_CLASSES, BITS) if kind == "classes" else (BITS,):
                    table += _compare(folder, path, kind, bits)
                    print(*table[-2], *table[-1], flush=True)
                path.unlink()
    return table


def write_rows(path: Path, kind: str, count: int, seed: int = 0) -> None:
    """Text of rows whose features follow Zipf's law: numbered, or named in two namespaces; two classes, or 20."""
    rng = np.random.default_rng(seed)
    k = 20 if kind == "classes" else 2
    planted = rng.normal(size=(4096, k))
    with open(path, "w") as file:
        for _ in range(0, count, 5000):
            columns = rng.zipf(1.3, size=(5000, FEATURES)) % (1 << 18)
            values = np.round(rng.random((5000, FEATURES)) + 0.1, 3)
            scores = (planted[columns % 4096] * values[:, :, None]).sum(axis=1) + rng.normal(size=(5000, k))
            labels = scores.argmax(axis=1) + 1 if k > 2 else np.where(scores[:, 0] > scores[:, 1], 1, -1)
            for label, numbers_of_row, amounts in zip(labels.tolist(), columns.tolist(), values.tolist()):
                ids = list(dict.fromkeys(numbers_of_row))  # every feature once
                if kind == "names":
                    half = FEATURES // 2
                    words = " ".join(f"word{i}" for i in ids[:half])
                    numbers = " ".join(f"count{i}:{x}" for i, x in zip(ids[half:], amounts[half:]))
                    file.write(f"{label} |text {words} |numbers {numbers}\n")
                else:
                    file.write(f"{label} | " + " ".join(f"{i}:{x}" for i, x in zip(ids, amounts)) + "\n")


def _repeated(base: Path, path: Path, size: int) -> Path:
    content = base.read_bytes()
    with open(path, "wb") as file:
        while file.tell() < size:
            file.write(content)
    return path


def _compare(folder: Path, path: Path, kind: str, bits: int) -> list[list[Any]]:
    options = ("-b", str(bits), *(("--oaa", "20") if kind == "classes" else ()))
    label = f"{kind}, VW -b {bits}" if kind == "classes" else kind
    one = folder / "one.vw"
    with open(path) as lines:
        one.write_text(next(lines))
    cache, layout, model = folder / "rows.cache", folder / "rows.arrow", folder / "model"

    def vw(data: Path, *extra: str) -> tuple[str, ...]:
        return (*VW, "-d", str(data), *options, *extra)

    def lineal(data: Path) -> tuple[str, ...]:
        return (*LINEAL, str(data), "-m", str(model), "--json")

    subprocess.run(lineal(one), check=True, stdout=subprocess.PIPE)  # compiles
    text = _row(path, "text", vw(path), vw(one), lineal(path), lineal(one), label)
    subprocess.run(vw(path, "--cache_file", str(cache)), check=True, stderr=subprocess.PIPE)
    subprocess.run(
        (sys.executable, "-m", "lineal", "convert", str(path), str(layout), "--dtype", "float32"), check=True
    )
    subprocess.run(lineal(layout), check=True, stdout=subprocess.PIPE)
    cached = _row(
        path, "cached", vw(path, "--cache_file", str(cache)), vw(one), lineal(layout), lineal(one), label,
    )  # fmt: skip
    for made in (cache, layout):
        made.unlink()
    return [text, cached]


def _row(path: Path, what: str, theirs: Any, their_start: Any, ours: Any, our_start: Any, label: str) -> list[Any]:
    seconds = {name: _least(command) for name, command in
               (("vw", theirs), ("vw0", their_start), ("lineal", ours), ("lineal0", our_start))}  # fmt: skip
    (vw, vw_text, vw_peak), (own, own_text, own_peak) = seconds["vw"], seconds["lineal"]
    vw0, own0 = seconds["vw0"][0], seconds["lineal0"][0]
    loss = re.search(r"average loss = ([\d.]+)", vw_text)
    own_loss = re.search(r'"progressive_loss": ([\d.e-]+)', own_text)
    return [
        label, path.stat().st_size / 1e6, what, vw, own, vw / own, (vw - vw0) / (own - own0), vw0, own0,
        loss and loss.group(1), own_loss and f"{float(own_loss.group(1)):.6f}", vw_peak, own_peak,
    ]  # fmt: skip


def _least(command: tuple[str, ...]) -> tuple[float, str, float]:
    """The least seconds of three runs, what the last said, and its peak of memory in GB."""
    said: list[tuple[str, float]] = []

    def run() -> None:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(text)
        said.append((text, usage.ru_maxrss * 1024 / 1e9))

    return measure(run, 3), *said[-1]


# --- quality


def quality(arguments: argparse.Namespace) -> list[list[Any]]:
    """Progressive losses of both on real sets."""
    from lineal.online.options import OnlineOptions
    from lineal.online.trainer import Block, Trainer

    plan = problems.Plan(arguments.data)
    table = []
    for name in SETS[:3] if arguments.quick else SETS:
        problem = plan.load(name)
        labels = problem.y + 1 if problem.k > 1 else 2 * problem.y - 1
        trainer = Trainer(OnlineOptions().checked(), "classes", np.unique(labels))
        trainer.feed(Block(problem.X, labels))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.vw"
            _write(path, problem.X, labels)
            classes = ("--oaa", str(problem.k)) if problem.k > 1 else ()
            done = subprocess.run(
                (*VW, "-b", str(BITS), "-d", str(path), *classes), check=True, capture_output=True, text=True
            )
        theirs = float(re.search(r"average loss = ([\d.]+)", done.stderr).group(1))  # type: ignore[union-attr]
        own = trainer.loss()
        table.append([name, len(labels), max(problem.k, 2), theirs, own, f"{100.0 * (own - theirs) / theirs:+.2f}"])
        print(*table[-1], flush=True)
    return table


def _write(path: Path, X: Any, labels: np.ndarray) -> None:
    with open(path, "w") as file:
        for i, label in enumerate(labels.tolist()):
            part = slice(X.indptr[i], X.indptr[i + 1])
            entries = zip((X.indices[part] + 1).tolist(), X.data[part].tolist())
            file.write(f"{label} | " + " ".join(f"{column}:{value:.9g}" for column, value in entries) + "\n")


if __name__ == "__main__":
    print(f"{available_cores()} cores")
    main()
