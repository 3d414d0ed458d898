"""Small files that the tests of the command line share, and short ways to run a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file, load_digits, load_iris
from typer.testing import CliRunner

from lineal.cli.app import app

COLOURS = ("red", "green", "blue")


def run(*args: object, **extra: Any) -> Any:
    """Run a command in this process; an unexpected exception is raised here, too."""
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False, **extra)


def done(*args: object, **extra: Any) -> Any:
    """Run a command that must succeed."""
    result = run(*args, **extra)
    assert result.exit_code == 0, result.output
    return result


def failed(*args: object, **extra: Any) -> str:
    """Run a command that must fail; return the one line that says why."""
    result = run(*args, **extra)
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("lineal: error: ")
    return lines[0]


def shell(*args: object, **extra: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return subprocess.run([*program(), *map(str, args)], capture_output=True, text=True, timeout=240, **extra)


def program() -> list[str]:
    """The command that starts the console script, whether or not it is installed on the path."""
    return [sys.executable, "-c", "from lineal.cli import main; main()"]


def write_digits(folder: Path) -> tuple[Path, Path]:
    """Write digits as svmlight: rows to train on and rows to test on."""
    X, y = load_digits(return_X_y=True)
    paths = folder / "digits.svm", folder / "digits-test.svm"
    for path, part in zip(paths, (slice(0, 400), slice(400, 600))):
        dump_svmlight_file(X[part] / 16.0, y[part], os.fspath(path), zero_based=False)
    return paths


def write_iris(path: Path) -> Path:
    """Write iris as CSV, with a text column and text labels."""
    data = load_iris()
    lines = ["a,b,c,d,colour,kind"]
    for i, (row, label) in enumerate(zip(data.data, data.target)):
        lines.append(",".join([*map(str, row), COLOURS[i % 3], str(data.target_names[label])]))
    path.write_text("\n".join(lines) + "\n")
    return path


def label_sets() -> tuple[np.ndarray, np.ndarray]:
    """Rows with up to three labels: label j belongs to rows whose column j is large."""
    X = np.random.default_rng(0).uniform(size=(80, 4)).round(3)
    return X, X[:, :3] > 0.5


def write_label_sets(path: Path) -> Path:
    """Write these rows as svmlight; their labels are 10, 20 and 30."""
    X, Y = label_sets()
    lines = []
    for row, labels in zip(X, Y):
        names = ",".join(str(10 * (j + 1)) for j in np.flatnonzero(labels))
        lines.append(f"{names} " + " ".join(f"{j + 1}:{value}" for j, value in enumerate(row)))
    path.write_text("\n".join(lines) + "\n")
    return path
