"""Files that another process cuts or overwrites while they are read: an answer or an error, never a signal."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from scipy import sparse

import lineal
from lineal.data import source
from lineal.errors import DataError

PROGRAM = Path(__file__).with_name("changing_files.py")
KINDS = [".svm", ".svm.gz", ".vw", ".csv", ".csv.gz", ".jsonl", ".parquet", ".feather", ".arrow", ".npy", ".npz"]
N, D = 4000, 8


def write(path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(-99, 99, (N, D)) / 4, rng.integers(0, 2, N)
    rows = list(zip(y.tolist(), X.tolist()))
    names = [f"x{j}" for j in range(D)]
    table = {name: X[:, j] for j, name in enumerate(names)} | {"label": y}
    texts = {
        ".svm": (f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for label, row in rows),
        ".vw": (f"{label} | " + " ".join(f"{n}:{v}" for n, v in zip(names, row)) for label, row in rows),
        ".csv": [",".join([*names, "label"]), *(",".join(map(str, [*row, label])) for label, row in rows)],
        ".jsonl": (json.dumps(dict(zip(names, row), label=label)) for label, row in rows),
    }
    plain = kind.removesuffix(".gz")
    if plain in texts:
        content = ("\n".join(texts[plain]) + "\n").encode()
        path.write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    elif kind == ".parquet":
        parquet.write_table(pa.table(table), path)
    elif kind == ".feather":
        with pa.ipc.new_file(str(path), pa.table(table).schema) as writer:
            writer.write_table(pa.table(table), max_chunksize=500)
    elif kind == ".npy":
        np.save(path, X)
    elif kind == ".npz":
        np.savez(path, X=X, y=y)
    else:
        write(path.with_suffix(".svm"), ".svm")
        lineal.convert(path.with_suffix(".svm"), path)


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_change_while_they_are_read(tmp_path, tally, factor, kind):
    area = tally("files that change")
    write(tmp_path / f"good{kind}", kind)
    command = [sys.executable, str(PROGRAM), str(tmp_path), kind, str(9 * factor), "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    for number, problem in enumerate(json.loads(done.stdout)):
        area.attempt(f"{kind} {number}", problem or None)


@pytest.mark.parametrize("kind", [".svm", ".csv", ".arrow"])
def test_training_on_a_file_that_is_cut(tmp_path, tally, factor, kind):
    """The command line ends with a model or an error, at whatever moment the file is cut."""
    area, rng = tally("files that change"), random.Random(1)
    path, model = tmp_path / f"good{kind}", tmp_path / "m.model"
    write(path, kind)
    content = path.read_bytes()
    for number in range(factor):
        path.write_bytes(content)
        command = [sys.executable, "-m", "lineal", "train", str(path), "-m", str(model), "--quiet"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(rng.random() * 3)
        os.truncate(path, rng.randrange(len(content)))
        _, messages = child.communicate()
        is_fine = child.returncode in (0, 2) and "Traceback" not in messages and "internal" not in messages
        area.attempt(f"train {kind} {number}", None if is_fine else f"{child.returncode}: {messages[-500:]}")


def test_data_stays_when_its_file_is_cut_afterwards(tmp_path):
    for kind in KINDS:
        path = tmp_path / f"good{kind}"
        write(path, kind)
        data = lineal.read(path)
        before = abs(data.X).sum()
        os.truncate(path, 10)
        assert abs(data.X).sum() == before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ".npz"])
def test_a_change_is_named(tmp_path, monkeypatch, kind):
    """A change that cannot be seen in the contents, just before the end of reading."""
    path = tmp_path / f"good{kind}"
    write(path, kind)
    check = source.Unchanged.check

    def changed_before(self):
        os.utime(path, ns=(1, 1))
        check(self)

    monkeypatch.setattr(source.Unchanged, "check", changed_before)
    with pytest.raises(DataError, match=f"good{kind} changed while it was read"):
        lineal.read(path)
    write(path, kind)
    with pytest.raises(DataError, match=f"good{kind} changed while it was read"):
        list(lineal.read_blocks(path))


def test_sparse_arrays_are_cut(tmp_path):
    """A sparse npz and a converted file of label sets, cut at every hundredth byte: an error each time."""
    X = sparse.random_array((60, 9), density=0.4, format="csr", rng=np.random.default_rng(0))
    sparse.save_npz(tmp_path / "x.npz", X)
    (tmp_path / "t.svm").write_text("1,2 1:1\n2 2:1\n3 1:1\n" * 30)
    lineal.convert(tmp_path / "t.svm", tmp_path / "t.arrow")
    for name in ("x.npz", "t.arrow"):
        content = (tmp_path / name).read_bytes()
        for size in range(0, len(content), 100):
            (tmp_path / name).write_bytes(content[:size])
            with pytest.raises(DataError):
                lineal.read(tmp_path / name)
