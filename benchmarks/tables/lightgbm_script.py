"""LightGBM's classifier with its defaults: `python lightgbm_script.py FILE`, with X, y, X_test, y_test in an .npz file.

Prints the error on the test rows and the seconds of the fit.
"""

import json
import sys
import time

import numpy as np
from lightgbm import LGBMClassifier


def main():
    """Fit, score."""
    with np.load(sys.argv[1]) as file:
        X, y, X_test, y_test = (file[name] for name in ("X", "y", "X_test", "y_test"))
    LGBMClassifier(n_estimators=2, verbose=-1).fit(X[:500], y[:500])
    start = time.perf_counter()
    model = LGBMClassifier(verbose=-1).fit(X, y)
    seconds = time.perf_counter() - start
    print(json.dumps({"error": float((model.predict(X_test) != y_test).mean()), "seconds": seconds}))


if __name__ == "__main__":
    main()
