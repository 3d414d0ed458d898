"""The other contestants: LIBLINEAR, scikit-learn and VW on the same features, each fit with a limit of its own.

    python -m benchmarks.least_squares.peers FOLDER JOB

A peer runs in a process that an alarm ends when a fit takes too long: nothing else stops a C library. Its strength (C,
alpha, or VW's passes) is the best of a few on rows of the training set that are held out, with fits on `CHOICE_ROWS` of
them; then it is fitted to all, timed around the training call alone, its data structures made beforehand.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.least_squares import vw
from benchmarks.least_squares.ours import timed
from benchmarks.least_squares.problems import Plan, Sets, percent_wrong, split

#: Training rows by which strengths are chosen; a sixth of them is held out.
CHOICE_ROWS, QUICK_ROWS = 12_000, 1_500

#: So many strengths in a row without an error as small as the least end the choice: larger ones only take longer.
WORSE = 2

C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
PASSES = (1, 4, 16)


class Peer(NamedTuple):
    """A contestant: how it is called, and the strengths that are tried."""

    name: str
    kind: str
    options: dict[str, Any]
    grid: tuple[float, ...]


LIBLINEAR = {
    f"LIBLINEAR -s {s}, {words}": Peer(f"LIBLINEAR -s {s}, {words}", "liblinear", {"solver": s}, C_GRID)
    for s, words in enumerate((
        "l2 logistic", "l2 squared hinge, dual", "l2 squared hinge, primal", "l2 hinge", "Crammer–Singer",
        "l1 squared hinge",
    ))
}  # fmt: skip
LOGISTIC = Peer("LogisticRegression", "logistic", {"max_iter": 1000}, (0.1, 1.0, 10.0, 100.0, 1000.0))
RIDGE = Peer("RidgeClassifier", "ridge", {}, (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0))
LINEAR_SVC = Peer("LinearSVC", "linear_svc", {}, C_GRID)
VW = Peer("VW", "vw", {}, PASSES)


class Room:
    """Data in a temporary folder, for peers to run on."""

    def __init__(self, sets: Sets, plan: Plan) -> None:
        self.sets, self.plan = sets, plan
        self._folder = TemporaryDirectory()
        self.folder = Path(self._folder.name)
        for name, part in zip(Sets._fields[1:], sets[1:]):
            if sparse.issparse(part):
                sparse.save_npz(self.folder / f"{name}.npz", part, compressed=False)
            else:
                np.save(self.folder / f"{name}.npy", part)

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()

    def run(self, peer: Peer) -> dict[str, Any]:
        """Choose and fit: name, strength, seconds and error (%), or a note where it was not done in time."""
        found: dict[str, Any] = {"name": peer.name, "seconds": None, "error": None, "validation": {}}
        if peer.kind == "vw":
            return {**found, **self._vw(peer)}
        grid = peer.grid[1::2] if self.plan.is_quick else peer.grid
        found |= self._process(peer, grid)
        if found["seconds"] is None and "chosen" not in found and found["validation"]:
            errors = found["validation"]  # larger strengths took too long already for the choice
            found |= {**self._process(peer, (float(min(errors, key=errors.__getitem__)),)), "validation": errors}
        if found["seconds"] is None:
            found.setdefault("note", f"not done in {self.plan.seconds:g} s")
        return found

    def _process(self, peer: Peer, grid: tuple[float, ...]) -> dict[str, Any]:
        job = {"kind": peer.kind, "options": peer.options, "grid": grid, "seconds": self.plan.seconds,
               "rows": QUICK_ROWS if self.plan.is_quick else CHOICE_ROWS}  # fmt: skip
        command = [sys.executable, "-m", __name__, str(self.folder), json.dumps(job)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, -signal.SIGALRM):
            words = f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
            return {"note": words, "seconds": None, "error": None, "validation": {}}
        found: dict[str, Any] = {"validation": {}}
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                answer = json.loads(line)
                found["validation"] |= answer.pop("validation", {})
                found |= answer
        return {"seconds": None, **found}

    def _vw(self, peer: Peer) -> dict[str, Any]:
        rows = QUICK_ROWS if self.plan.is_quick else CHOICE_ROWS
        tries = split(self.sets, rows=rows)
        with vw.Cache(tries, self.folder / "choice") as cache:
            grid = peer.grid[:2] if self.plan.is_quick else peer.grid
            errors = {passes: cache.run(int(passes), self.plan.seconds) for passes in grid}
        known = {str(passes): answer["error"] for passes, answer in errors.items() if answer is not None}
        if not known:
            return {"note": f"not done in {self.plan.seconds:g} s", "validation": {}}
        best = int(min(known, key=known.__getitem__))
        with vw.Cache(self.sets, self.folder / "all") as cache:
            answer = cache.run(best, self.plan.seconds)
        chosen = {"chosen": f"{best} passes", "validation": known}
        return {**chosen, **answer} if answer else {**chosen, "note": f"not done in {self.plan.seconds:g} s"}


# --- in the process of a peer


def work(folder: Path, job: dict[str, Any]) -> None:
    """Choose the strength and fit, saying what is known after every fit."""
    sets = Sets("peers", *(_loaded(folder, name) for name in Sets._fields[1:]))
    make = {"liblinear": _liblinear, "logistic": _logistic, "ridge": _ridge, "linear_svc": _linear_svc}[job["kind"]]
    grid = job["grid"]
    if len(grid) > 1:
        rows = split(sets, rows=job["rows"])
        fit = make(rows, **job["options"])
        errors = {}
        for strength in grid:
            _, predict = _within(job["seconds"], lambda strength=strength: fit(strength))
            errors[strength] = percent_wrong(predict(rows.X_test), rows.y_test)
            print(json.dumps({"validation": {str(strength): errors[strength]}}), flush=True)
            if min(list(errors.values())[-WORSE:]) > min(errors.values()):
                break
        grid = [min(errors, key=errors.__getitem__)]
        del rows, fit, predict  # before the whole is made
    print(json.dumps({"chosen": f"{grid[0]:g}"}), flush=True)
    fit = make(sets, **job["options"])
    seconds, predict = _within(job["seconds"], lambda: fit(grid[0]))
    print(json.dumps({"seconds": seconds, "error": sets.error(predict(sets.X_test))}), flush=True)


def _within(limit: float, fit: Callable[[], Any]) -> tuple[float, Any]:
    signal.setitimer(signal.ITIMER_REAL, limit)
    answer = timed(fit)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return answer


def _loaded(folder: Path, name: str) -> Any:
    if (folder / f"{name}.npz").exists():
        return sparse.load_npz(folder / f"{name}.npz").tocsr()
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def _liblinear(rows: Sets, solver: int) -> Callable[[float], Any]:
    from liblinear.liblinearutil import parameter, problem, train

    given = problem(rows.y.astype(np.float64), _csr(rows.X), bias=1.0)

    def fit(C: float) -> Callable[[Any], np.ndarray]:
        model = train(given, parameter(f"-s {solver} -c {C:g} -B 1 -q"))
        labels = np.array(model.get_labels())
        k = len(labels)
        W = np.ctypeslib.as_array(model.w, shape=((model.nr_feature + 1) * k,)).reshape(-1, k).copy()
        return lambda X: labels[np.asarray(X[:, : model.nr_feature] @ W[:-1] + W[-1]).argmax(axis=1)]

    return fit


def _csr(X: Any) -> Any:
    """Dense rows are all entries: nothing is searched for zeros, and no pairs of indices are made."""
    if sparse.issparse(X):
        return sparse.csr_matrix(X, dtype=np.float64)
    n, d = X.shape
    data = np.asarray(X).astype(np.float64).reshape(-1)
    indices: np.ndarray = np.tile(np.arange(d, dtype=np.int32), n)
    return sparse.csr_matrix((data, indices, np.arange(0, n * d + 1, d, dtype=np.int64)), shape=(n, d), copy=False)


def _logistic(rows: Sets, **options: Any) -> Callable[[float], Any]:
    from sklearn.linear_model import LogisticRegression

    X = _in_memory(rows.X)
    return lambda C: LogisticRegression(C=C, **options).fit(X, rows.y).predict


def _ridge(rows: Sets) -> Callable[[float], Any]:
    from sklearn.linear_model import RidgeClassifier

    X = _in_memory(rows.X)
    return lambda alpha: RidgeClassifier(alpha=alpha).fit(X, rows.y).predict


def _linear_svc(rows: Sets) -> Callable[[float], Any]:
    from sklearn.svm import LinearSVC

    X = rows.X.astype(np.float64)
    return lambda C: LinearSVC(C=C).fit(X, rows.y).predict


def _in_memory(X: Any) -> Any:
    return X if sparse.issparse(X) else np.array(X)


if __name__ == "__main__":
    work(Path(sys.argv[1]), json.loads(sys.argv[2]))
