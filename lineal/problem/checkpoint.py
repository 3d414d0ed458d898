"""Checkpoints: a file from which a fit that was killed continues to the same result.

The file has the state of the loop (`loop_state.py`), the history so far, and facts that tell which fit it belongs to
(`fingerprint.py`). Nothing about a fit depends on when its checkpoints are written, so a fit that continues has the
same bits as one that was never interrupted.

The file is replaced in one step and is on the disk before it takes its place: it is never half-written. It has no
pickles. Its checksum detects damage.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from lineal import __version__
from lineal.errors import CheckpointError, LinealError
from lineal.problem.fingerprint import Fingerprint, differences
from lineal.problem.loop_state import decode, encode
from lineal.problem.progress import print_line
from lineal.system.files import check_writable, remove_stale_parts, target_of, whole_file
from lineal.system.tensor_file import checksum, read_tensors, write_tensors

#: Seconds between two checkpoints, unless the environment variable says otherwise.
EVERY, EVERY_VARIABLE = 30.0, "LINEAL_CHECKPOINT_SECONDS"

#: Largest fraction of the time that is spent on writing checkpoints.
LARGEST_SHARE = 0.05

#: What is called with one line when a fit continues from its checkpoint; by default, only verbose fits print it.
listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)

#: Name of the tensor that holds the JSON text.
_DOCUMENT = "document"

#: Errors that mean that the contents of a file do not belong together.
MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Saved(NamedTuple):
    """What a loop needs to continue: its last iteration, seconds and history so far, and its state."""

    iteration: int
    seconds: float
    history: list[dict[str, Any]]
    state: Any


class Checkpoint:
    """The checkpoint file of one fit, which may exist already.

    A fit can have several loops, one after the other. Each is a phase with a name, and the facts that it needs about
    the phases before.

    Parameters
    ----------
    path : the file.
    tell : called with one line if the fit continues from the file.
    """

    def __init__(self, path: str | os.PathLike[str], tell: Callable[[str], None] = lambda line: None) -> None:
        self.path, self.tell = os.fspath(path), tell
        self.phase = ""
        self.facts: dict[str, Any] | None = None
        self._fingerprint: Fingerprint = {}
        self._every, self._cost = _seconds_between(), 0.0
        self._last = time.monotonic()
        self._has_failed = False
        check_writable(path)
        self._found: dict[str, Any] | None = _read(self.path) if os.path.lexists(path) else None

    # --- reading

    def match(self, fingerprint: Fingerprint) -> None:
        """Raise an error if the file is a checkpoint of another fit."""
        self._fingerprint = fingerprint
        if self._found is None:
            return
        differing = differences(self._found["fingerprint"], fingerprint)
        if differing:
            raise CheckpointError(
                f"{self.path} is a checkpoint of another fit: {'; '.join(differing)}; continue with the same data and "
                "options, delete the file, or name another one"
            )
        saved = self._found["saved"]
        self.tell(f"continuing from {self.path}, after {saved.seconds:.1f} seconds of training")

    @property
    def found_phase(self) -> tuple[str, dict[str, Any] | None] | None:
        """Name and facts of the phase in which the fit was interrupted; None if this is a new fit."""
        return None if self._found is None else (self._found["phase"], self._found["facts"])

    def enter(self, phase: str, facts: dict[str, Any]) -> None:
        """Begin the next phase."""
        self.phase, self.facts = phase, facts

    def take(self) -> Saved | None:
        """What the loop of this phase continues from; None if it starts from the beginning."""
        if self._found is None or self._found["phase"] != self.phase:
            return None
        saved: Saved = self._found["saved"]
        self._found = None  # its arrays can be large
        return saved

    # --- writing

    def is_due(self) -> bool:
        """Whether the next checkpoint should be written now."""
        return time.monotonic() - self._last >= max(self._every, self._cost / LARGEST_SHARE if self._every else 0.0)

    def write(self, saved: Saved) -> None:
        """Write a checkpoint. If that fails, a warning says so once, and the fit goes on without it."""
        began = time.monotonic()
        try:
            document, arrays = encode({**saved._asdict(), "phase": self.phase, "facts": self.facts})
            text = json.dumps({"fingerprint": self._fingerprint, "lineal": __version__, **document})
            tensors = {_DOCUMENT: np.frombuffer(text.encode(), np.uint8), **arrays}
            with whole_file(self.path) as file:
                write_tensors(file, {"lineal_checkpoint": __version__, "blake2b": checksum("", tensors)}, tensors)
        except (LinealError, MemoryError, TypeError, ValueError) as error:
            if not self._has_failed:
                warnings.warn(f"no checkpoint was written, the fit goes on: {error or 'no memory'}", stacklevel=2)
            self._has_failed = True
        self._last = time.monotonic()
        self._cost = self._last - began

    def remove(self) -> None:
        """Delete the file, after a fit that ended by itself, and what a killed process has left beside it."""
        remove_stale_parts(target_of(self.path))
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            warnings.warn(f"cannot delete the checkpoint {self.path}: {error.strerror}", stacklevel=2)

    def misfit(self, error: BaseException) -> CheckpointError:
        """The error for a state that is not one of this fit, although the facts are the same."""
        return CheckpointError(f"{self.path} has no state of this fit ({error}): delete the file, or name another one")


def checkpoint_of(options: Any) -> Checkpoint | None:
    """The checkpoint that options name, read if it exists; None if they name none."""
    if options.checkpoint is None:
        return None
    tell = listener.get() or (print_line if options.verbose else lambda line: None)
    return Checkpoint(options.checkpoint, tell)


def _read(path: str) -> dict[str, Any]:
    """Contents of a checkpoint; an error says what is wrong with the file."""
    try:
        with open(path, "rb") as file:
            metadata, tensors = read_tensors(file)
    except OSError as error:
        raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
    except MemoryError:
        raise CheckpointError(f"the checkpoint {path} needs more memory than there is") from None
    except ValueError as error:
        raise CheckpointError(_damaged(path, error)) from None
    if "lineal_checkpoint" not in metadata:
        raise CheckpointError(f"{path} is not a checkpoint of lineal: name another file")
    writer = metadata["lineal_checkpoint"]
    if writer != __version__:
        raise CheckpointError(
            f"{path} is a checkpoint of lineal {writer}, and this is lineal {__version__}: continue with that version, "
            "or delete the file"
        )
    try:
        if metadata.get("blake2b") != checksum("", tensors):
            raise ValueError("its checksum does not fit its contents")
        document = json.loads(tensors.pop(_DOCUMENT).tobytes().decode())
        found = decode({"dict": document["dict"]}, tensors)
        saved = Saved(found["iteration"], found["seconds"], found["history"], found["state"])
        return {
            "fingerprint": dict(document["fingerprint"]), "phase": found["phase"], "facts": found["facts"],
            "saved": saved,
        }  # fmt: skip
    except MISFITS as error:
        raise CheckpointError(_damaged(path, error)) from None


def _damaged(path: str, error: BaseException) -> str:
    return f"{path} is cut, damaged or not a checkpoint ({error}): delete the file, or name another one"


def _seconds_between() -> float:
    """Seconds between two checkpoints; zero means one after every iteration."""
    given = os.environ.get(EVERY_VARIABLE, "")
    try:
        return max(float(given), 0.0) if given else EVERY
    except ValueError:
        raise CheckpointError(f"{EVERY_VARIABLE}={given!r} is not a number of seconds") from None
