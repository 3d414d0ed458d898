"""Train on the processes of a Dask cluster, and compare with a fit in this process.

Needs Dask: pip install "lineal[dask]". To use other machines, replace `local_cluster` by the address of a scheduler.
"""

import warnings

import numpy as np
from dask import delayed
from distributed import Client
from scipy import sparse

import lineal
from lineal.engine.dask.cluster import local_cluster


def block(seed, rows=1500, columns=2000):
    """One partition of a generated data set: it is made where it is needed."""
    weights = np.random.default_rng(0).normal(size=columns)
    X = sparse.random_array((rows, columns), density=0.01, rng=np.random.default_rng(seed), format="csr")
    return X, np.digitize(X @ weights, [-1.0, 1.0])


def main():
    """Fit on two workers and in this process."""
    parts = [delayed(block)(seed) for seed in range(1, 5)]
    classifier = lineal.LinearClassifier("softmax", alpha=1e-4, solver="lbfgs")
    with local_cluster(n_workers=2) as cluster, Client(cluster):
        classifier.fit(parts)
        print(f"two workers: {classifier.certificate_}")
    blocks = [block(seed) for seed in range(1, 5)]
    X, y = sparse.vstack([X for X, _ in blocks], format="csr"), np.concatenate([y for _, y in blocks])
    print(f"here: {lineal.LinearClassifier('softmax', alpha=1e-4, solver='lbfgs').fit(X, y).certificate_}")


if __name__ == "__main__":  # the processes of the cluster import this file
    warnings.simplefilter("ignore", ResourceWarning)
    main()
