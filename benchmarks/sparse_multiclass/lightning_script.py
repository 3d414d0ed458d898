"""One fit of lightning's CDClassifier, run by the interpreter that has it; see `elsewhere.py`.

    python lightning_script.py FOLDER JSON

FOLDER has X.npz (CSC) or X.npy (Fortran order) in float64, and y.npy; JSON has alpha, max_iter, tol, shrinking and
repeats. Writes weights.npy, (d, k), and prints the seconds of the fit and the versions.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from lightning import __version__ as version
from lightning.classification import CDClassifier
from scipy import sparse


def main():
    """Fit, time, save."""
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    is_sparse = (folder / "X.npz").exists()
    X = sparse.load_npz(folder / "X.npz") if is_sparse else np.load(folder / "X.npy")
    y = np.load(folder / "y.npy")
    best = float("inf")
    for _ in range(options["repeats"]):
        model = CDClassifier(
            penalty="l1/l2", multiclass=True, loss="squared_hinge", C=1.0 / X.shape[0], alpha=options["alpha"],
            max_iter=options["max_iter"], tol=options["tol"], shrinking=options["shrinking"],
            selection="cyclic", random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(X, y)
        best = min(best, time.perf_counter() - start)
        if best > 20.0:
            break
    np.save(folder / "weights.npy", model.coef_.T)
    print(json.dumps({"seconds": best, "lightning": version, "numpy": np.__version__}))


if __name__ == "__main__":
    main()
