"""One fit of adelie's grpnet, run by the interpreter that has it; see `elsewhere.py`.

    python adelie_script.py FOLDER JSON

FOLDER has X.npz (CSC) or X.npy (Fortran order) in float64, y.npy with 0 and 1, and starts.npy with the first feature of
every group; JSON has alphas (a path, the last of which counts), tol, threads and repeats. Writes weights.npy, (d, 1),
and prints the seconds and the version.
"""

import json
import sys
import time
from pathlib import Path

import adelie
import numpy as np
from scipy import sparse


def main():
    """Fit, time, save."""
    folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    threads = options["threads"]
    if (folder / "X.npz").exists():
        X = adelie.matrix.sparse(sparse.load_npz(folder / "X.npz"), n_threads=threads)
    else:
        X = adelie.matrix.dense(np.load(folder / "X.npy"), n_threads=threads)
    y, starts = np.load(folder / "y.npy").astype(np.float64), np.load(folder / "starts.npy")
    best = float("inf")
    for _ in range(options["repeats"]):
        start = time.perf_counter()
        state = adelie.grpnet(
            X, adelie.glm.binomial(y), groups=starts, alpha=1.0, penalty=np.ones(len(starts)), intercept=False,
            lmda_path=np.array(options["alphas"]), early_exit=False, adev_tol=1.0, tol=options["tol"],
            irls_tol=options["tol"], n_threads=threads, progress_bar=False,
        )  # fmt: skip
        best = min(best, time.perf_counter() - start)
        if best > 20.0:
            break
    np.save(folder / "weights.npy", np.asarray(state.betas[-1].todense()).reshape(-1, 1))
    reached = float(state.lmdas[-1])
    print(json.dumps({"seconds": best, "alpha": reached, "adelie": adelie.__version__}))


if __name__ == "__main__":
    main()
