"""Where learners are: on threads of this process, or on the workers of the active Dask cluster.

`engine="auto"` takes Dask for Dask collections, and for files if there are several learners and a client is active. One
learner of files stays in this process: a cluster would not make it faster.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from lineal.core.threads import thread_count
from lineal.online.learner_pass import LearnerRows, Place
from lineal.online.on_threads import OnThreads
from lineal.online.options import OnlineOptions
from lineal.problem.progress import print_line


def is_on_cluster(options: OnlineOptions) -> bool:
    """Whether learners of files are on a cluster."""
    if options.engine != "auto" or options.learners == 1:
        return options.engine == "dask"
    if "distributed" not in sys.modules:  # Dask is not imported for this
        return False
    from lineal.engine.dask.cluster import is_client_active

    return is_client_active()


def place_of(rows: Sequence[LearnerRows], options: OnlineOptions) -> Place:
    """The place of learners that read files."""
    if not is_on_cluster(options):
        return OnThreads(rows, thread_count(options.n_jobs))
    from lineal.engine.dask.cluster import client_in_use
    from lineal.online.on_dask import OnDask

    return OnDask(client_in_use(), rows, told=told_of(options))


def told_of(options: OnlineOptions) -> Any:
    """Where messages about waiting go; None if they are not wanted."""
    return print_line if options.verbose else None
