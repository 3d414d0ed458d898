"""Damaged and forged model files of every kind. Run as a program: one line of JSON before and after each attempt, so
that whoever reads them knows which attempt ended the process.

    python model_attempts.py BYTES COUNT NAME...        with so much memory, COUNT attempts per way and kind of model
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from model_makers import FORGERIES, GONE, MAKERS, changed, forged_tensors, parts_of, places, questions, rows, write

import lineal
from lineal.errors import LinealError, ModelFileError

#: Seconds after which an attempt counts as hung.
SECONDS = 60


class Attempts:
    """Tries out files of one kind of model."""

    def __init__(self, name: str, count: int, folder: Path) -> None:
        self.name, self.count, self.path = name, count, folder / "model"
        self.rng = np.random.default_rng(len(name))
        self.X, y, Y = rows()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MAKERS[name](self.X, y, Y)
        model.save(self.path)
        self.content = self.path.read_bytes()
        self.description, self.tensors = parts_of(self.path)
        self.right = self.answers(lineal.load(self.path))

    def run(self) -> None:
        """All attempts."""
        self.attempt("as it was saved", lambda: None, must_fail=False)
        for what, content in self.damaged():
            self.attempt(what, lambda content=content: self.path.write_bytes(content), must_fail=True)
        for what, description, tensors in self.forged():
            self.attempt(what, lambda d=description, t=tensors: write(self.path, d, t), must_fail=False)

    def damaged(self) -> Iterator[tuple[str, bytes]]:
        """Files with some bytes changed, missing or too many."""
        size = len(self.content)
        for at in self.rng.integers(0, size, self.count).tolist():
            bit = int(self.rng.integers(8))
            flipped = bytearray(self.content)
            flipped[at] ^= 1 << bit
            yield f"bit {bit} of byte {at} flipped", bytes(flipped)
        for length in {0, 1, 7, 8, 9, size - 1, *self.rng.integers(0, size, self.count).tolist()}:
            yield f"cut to {length} bytes", self.content[:length]
        yield "longer by a byte", self.content + b"\0"
        for length in (0, 1, 2**31, 2**63, 2**64 - 1, size, size - 8, size - 7):
            yield f"a header of {length} bytes", length.to_bytes(8, "little") + self.content[8:]
        header = int.from_bytes(self.content[:8], "little")
        for _ in range(self.count):
            values = json.loads(self.content[8 : 8 + header])
            name = str(self.rng.choice([key for key in values if key != "__metadata__"]))
            field = str(self.rng.choice(["dtype", "shape", "data_offsets"]))
            forgery = FORGERIES[int(self.rng.integers(2, len(FORGERIES)))]
            values[name][field] = forgery if self.rng.random() < 0.3 else [forgery, *values[name]["shape"][1:]]
            if values != json.loads(self.content[8 : 8 + header]):
                text = json.dumps(values).encode()
                content = len(text).to_bytes(8, "little") + text + self.content[8 + header :]
                yield f"{field} of {name} in the header is {str(forgery)[:40]!r}", content

    def forged(self) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
        """Descriptions and tensors that were changed; the checksum is made to fit."""
        every = list(product(places(self.description), FORGERIES))
        for number in self.rng.choice(len(every), min(4 * self.count, len(every)), replace=False).tolist():
            place, forgery = every[number]
            yield f"{place} is {str(forgery)[:40]!r}", changed(self.description, place, forgery), self.tensors
        arrays = [
            (name, what, array) for name in self.tensors for what, array in forged_tensors(self.tensors[name], self.rng)
        ]
        for number in self.rng.choice(len(arrays), min(4 * self.count, len(arrays)), replace=False).tolist():
            name, what, array = arrays[number]
            others = {key: value for key, value in self.tensors.items() if key != name}
            yield f"{name} {what}", self.description, others if array is GONE else {**others, name: array}
        yield "no description", "", self.tensors
        yield "a list for a description", [1], self.tensors
        yield "one tensor too many", self.description, {**self.tensors, "more": np.zeros(3)}

    def answers(self, model: Any) -> list[np.ndarray]:
        """What a model says of a few rows."""
        return [np.asarray(model.decision_function(X)) for X in questions(model, self.X)]

    def attempt(self, what: str, make: Callable[[], Any], must_fail: bool) -> None:
        """Load a file and ask the model, if it is one."""
        what = f"{self.name}: {what}"
        print(json.dumps([what, None, False]), flush=True)
        make()
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                problem = self.problem(must_fail)
        finally:
            signal.alarm(0)
        print(json.dumps([what, problem, True]), flush=True)

    def problem(self, must_fail: bool) -> str | None:
        """What is not fine about the file at `path`, if anything."""
        try:
            model = lineal.load(self.path)
        except ModelFileError as error:
            return f"an error of several lines: {error}" if "\n" in str(error) else None
        except BaseException as error:
            return f"load: {type(error).__name__}: {error}"
        try:
            found = self.answers(model)
        except LinealError:
            return "a damaged file was loaded" if must_fail else None
        except BaseException as error:
            return f"decision_function: {type(error).__name__}: {error}"
        if not all(np.isfinite(scores).all() for scores in found):
            return "answered NaN"
        if must_fail and not all(map(np.array_equal, found, self.right)):
            return "a damaged file was loaded"
        return None


def _hung(*_: Any) -> None:
    raise TimeoutError(f"not done after {SECONDS} seconds")


def main(memory: int, count: int, names: list[str]) -> None:
    """Attempts of these kinds of models."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    signal.signal(signal.SIGALRM, _hung)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            Attempts(name, count, Path(folder)).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
