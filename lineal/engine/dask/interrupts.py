"""Preloaded by the workers of `local_cluster`: they ignore Ctrl-C, which a terminal sends to all processes at once.

The process that trains ends the fit with the best model so far, and needs the workers for that.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in a new worker process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
