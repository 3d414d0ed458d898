"""Spark MLlib; see `contestant.py`. Options: loss, alpha, workers, repeats, kill (workers in JVMs of their own).

Spark minimises the mean loss + regParam·½‖w‖² with an unpenalised intercept if elasticNetParam is 0 and standardization
is off: regParam is α. Iterations (100) and tolerance (1e-6) are its defaults. Rows are cached before the clock starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from pyspark.ml.classification import LinearSVC, LogisticRegression
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession

from benchmarks.distributed import contestant
from benchmarks.distributed.contestant import Contestant, Fitted

#: Name of the processes that hold partitions in Spark's local cluster.
EXECUTOR = "CoarseGrainedExecutorBackend"


@contextmanager
def opened(folder: Path, options: dict[str, Any]) -> Iterator[Contestant]:
    """Start Spark, cache the rows, and stop it at the end."""
    workers = int(options["workers"])
    master = f"local-cluster[{workers},1,4096]" if options.get("kill") else f"local[{workers}]"
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.executor.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    try:
        session.sparkContext.setLogLevel("ERROR")
        frame = _rows(session, folder).repartition(workers).cache()
        frame.count()

        def fit() -> Fitted:
            return _fitted(_estimator(options).fit(frame), options["loss"])

        yield Contestant(fit, _executors, {"version": session.version, "master": master})
    finally:
        session.stop()


def _rows(session: SparkSession, folder: Path) -> Any:
    if (path := folder / "rows.svm").exists():
        d = int(np.load(folder / "X_shape.npy")[1])
        return session.read.format("libsvm").option("numFeatures", d).load(str(path))
    frame = session.read.parquet(str(folder / "rows.parquet"))
    return frame.select("label", array_to_vector("vector").alias("features"))


def _estimator(options: dict[str, Any]) -> Any:
    common = {"regParam": options["alpha"], "standardization": False, "maxIter": 100, "tol": 1e-6}
    if options["loss"] == "hinge":
        return LinearSVC(**common)
    family = {"softmax": "multinomial", "logistic": "binomial"}[options["loss"]]
    return LogisticRegression(elasticNetParam=0.0, family=family, **common)


def _fitted(model: Any, loss: str) -> Fitted:
    if loss == "hinge":
        weights, intercept = model.coefficients.toArray()[:, None], np.array([model.intercept])
        summary = model.summary()
    else:
        weights, intercept = model.coefficientMatrix.toArray().T, model.interceptVector.toArray()
        summary = model.summary
    history = summary.objectiveHistory
    return Fitted(weights, intercept, {"own_objective": history[-1], "iterations": summary.totalIterations})


def _executors() -> list[int]:
    """Process numbers of the JVMs that hold partitions; with local[…] the driver's JVM has them, and there are none."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended meanwhile
            if any(EXECUTOR in word for word in child.cmdline()):
                found.append(child.pid)
    return found


if __name__ == "__main__":
    contestant.main(opened)
