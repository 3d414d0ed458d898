"""Peers that live in an interpreter of their own: a script, a folder with the data, JSON on its standard output."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse


class Elsewhere:
    """Data in a temporary folder, for the scripts of this folder that another interpreter runs on it."""

    def __init__(self, python: str, X: Any, y: np.ndarray, **arrays: np.ndarray) -> None:
        self.python = python
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        if isinstance(X, np.ndarray):
            np.save(self.folder / "X.npy", np.asfortranarray(X, dtype=np.float64))
        else:
            sparse.save_npz(self.folder / "X.npz", sparse.csc_matrix(X.astype(np.float64)), compressed=False)
        for name, array in {"y": y, **arrays}.items():
            np.save(self.folder / f"{name}.npy", array)

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()

    def run(self, script: str, max_time: float, **options: Any) -> dict[str, Any] | None:
        """What the script says, with its weights (d, k); None if it fails or takes too long."""
        path = Path(__file__).with_name(script)
        command = [self.python, "-I", str(path), str(self.folder), json.dumps(options)]  # without the paths of ours
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=max_time)
        except subprocess.TimeoutExpired:
            print(f"{script}: not done in {max_time:.0f} s", flush=True)
            return None
        except subprocess.CalledProcessError as error:
            print(f"{script} failed: {error.stderr.strip().splitlines()[-1:]}", flush=True)
            return None
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        return {**answer, "weights": np.load(self.folder / "weights.npy")}
