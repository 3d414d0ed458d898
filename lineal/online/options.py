"""Options of online learners: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lineal.data import ngrams
from lineal.engine.choice import ENGINES
from lineal.errors import OptionError, unknown_value
from lineal.system.options import Options, checkpoint_option, need_checkpoint, option

LOSSES = ("logistic", "squared", "hinge", "quantile")
EXPANSIONS = ("quadratic", "cubic", "adaptive")
HEURISTICS = ("weight", "ssm")
SCHEDULES = ("auto", "halving", "equal", "doubling")
MIN_BITS, MAX_BITS = 10, 30

#: The least values of options that are integers.
LEAST = {"passes": 1, "hold_out": 0, "patience": 1, "shuffle_buffer": 2, "epochs": 1, "learners": 1}

#: The rate that asks for a search, and the rates that are tried.
TUNE = "tune"
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class OnlineOptions(Options):
    """Options of an online learner."""

    loss: str | None = option(
        None, f"loss of a score: {', '.join(LOSSES)}; None means logistic for classes, squared for numbers"
    )
    rate: float | str = option(0.5, "learning rate; 'tune' learns with several at once and keeps the best")
    power_t: float = option(0.5, "updates shrink with the sum of squared derivatives (or of examples) to this power")
    initial_t: float = option(0.0, "number of examples that count as seen before the first one; only without adaptive")
    adaptive: bool = option(True, "one learning rate per feature, from its squared derivatives")
    normalised: bool = option(True, "divide features by the largest value seen, so that their scales do not matter")
    invariant: bool = option(
        True, "an example of importance 2 counts as two, and no update moves the score beyond the label"
    )
    l1: float = option(0.0, "strength of the l1 penalty: shrinks weights by this times the length of every update")
    l2: float = option(0.0, "strength of the l2 penalty: multiplies weights by 1 less this times the update's length")
    tau: float = option(0.5, "the quantile that the quantile loss fits, between 0 and 1")
    bits: int = option(18, f"features are hashed to 2**bits weights ({MIN_BITS} to {MAX_BITS})")
    ngram: str | int = option(
        1, "VW text: also join up to this many features that follow each other; for some namespaces, text=2,title=3"
    )
    skips: int = option(0, "VW text: number of features that an n-gram may leave out in between")
    passes: int = option(
        1, "number of passes over the rows; with several, some examples are held out to decide when to stop"
    )
    hold_out: int = option(10, "with several passes, hold out one example in this many; 0 for none")
    patience: int = option(3, "stop after this many passes without improvement on the examples held out")
    shuffle: bool = option(
        False, "learn from the rows in random order, another one in every pass: arrays without a copy, files and Dask "
        "collections through a buffer"
    )  # fmt: skip
    shuffle_buffer: int = option(
        32768, "rows of a file or a Dask collection that the buffer of shuffle holds; it takes three times their memory"
    )
    random_state: int | None = option(None, "seed of the random order")
    expansion: str | None = option(None, f"products of features: {', '.join(EXPANSIONS)}, or None")
    interactions: Any = option(  # noqa: RUF009
        None, "namespaces whose features are multiplied, for example a*b or a*b*c, separated by commas; None for all"
    )
    epochs: int = option(6, "adaptive expansion: number of epochs; all but the last end with new monomials")
    growth: float = option(1.0, "adaptive expansion: each epoch adds (mean features per example)**growth parents")
    heuristic: str = option("weight", "adaptive expansion: parents have the largest weights, or (ssm) residuals")
    fallback: bool = option(
        False, "adaptive expansion: one new parent is a monomial of the lowest degree not chosen yet"
    )
    picky: bool = option(False, "adaptive expansion: test monomials one by one before they are added (slow)")
    schedule: str = option(
        "auto",
        "adaptive expansion: epochs end at …, a quarter, a half of all examples (halving), at equal distances (equal), "
        "or at 1000, 2000, 4000, … examples (doubling); auto means halving if their number is known, else doubling",
    )
    caution: float = option(
        0.3,
        "adaptive expansion: new monomials learn as if they had been in this fraction of the examples so far",
    )
    max_time: float | None = option(None, "time limit in seconds; the model so far is kept")
    learners: int = option(
        1, "number of learners that share the rows and learn side by side; after every pass their weights are averaged"
    )
    engine: str = option(
        "auto", "where the learners are: local (threads of this process) or dask (workers of a cluster); auto takes "
        "dask for Dask collections, and for files if there are several learners and a client is active",
    )  # fmt: skip
    n_jobs: int | None = option(None, "number of threads that read, try rates and run learners; None means all cores")
    theorem: bool = option(False, "plain updates with rate 1/(l2·(examples + 1)), for which regret bounds are proved")
    verbose: int = option(0, "1 shows the progressive loss at doubling numbers of examples")
    checkpoint: str | None = checkpoint_option()

    def checked(self) -> OnlineOptions:
        """Return these options, or raise an error that names the first one that is not valid."""
        for name, value, allowed in (
            ("loss", self.loss, (None, *LOSSES)),
            ("heuristic", self.heuristic, HEURISTICS),
            ("schedule", self.schedule, SCHEDULES),
            ("engine", self.engine, ENGINES),
        ):
            if value not in allowed:
                raise unknown_value(name, value, tuple(one for one in allowed if one))
        if self.expansion is not None and self.expansion not in EXPANSIONS:
            raise unknown_value("expansion", self.expansion, EXPANSIONS)
        self._check_numbers()
        self._check_together()
        return self

    def for_numbers(self, is_number: bool) -> OnlineOptions:
        """Options with the default loss for numbers or classes; raises an error for a loss that does not apply."""
        if self.loss is None:
            return replace(self, loss="squared" if is_number else "logistic")
        if is_number and self.loss in ("logistic", "hinge"):
            raise OptionError(f"loss {self.loss!r} is for classes: use squared or quantile for numbers")
        if not is_number and self.loss == "quantile":
            raise OptionError("loss 'quantile' fits numbers, not classes: use logistic, squared or hinge")
        return self

    def _check_numbers(self) -> None:
        for name in ("l1", "l2", "power_t", "initial_t", "growth", "caution"):
            self.need(name, lambda v: 0.0 <= v < math.inf, "a finite number ≥ 0")
        if self.rate != TUNE:
            self.need("rate", lambda v: 0.0 < v < math.inf, "a finite number > 0, or 'tune'")
        self.need_common("max_time", "random_state")
        self.need("tau", lambda v: 0.0 < v < 1.0, "a number between 0 and 1")
        self.need_flags("adaptive", "normalised", "invariant", "shuffle", "fallback", "picky", "theorem")
        self.need(
            "bits", lambda v: MIN_BITS <= operator.index(v) <= MAX_BITS, f"an integer from {MIN_BITS} to {MAX_BITS}"
        )
        for name, least in LEAST.items():
            self.need(name, _at_least(least), f"an integer ≥ {least}")
        ngrams.parse(self.ngram, self.skips)
        need_checkpoint(self.checkpoint)
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        if self.hold_out == 1:
            raise OptionError("hold_out=1 leaves no example to learn from")

    def _check_together(self) -> None:
        self._refuse_idle()
        if self.engine == "file":
            raise OptionError("engine='file': online learners read all files as a stream; leave it out")
        if self.tau != 0.5 and self.loss != "quantile":
            raise OptionError(f"tau={self.tau:g} is for loss='quantile', not {self.loss!r}")
        if self.expansion != "adaptive":
            fresh = OnlineOptions()
            for name in ("epochs", "growth", "heuristic", "fallback", "picky", "schedule", "caution"):
                if getattr(self, name) != getattr(fresh, name):
                    raise OptionError(f"{name} is for expansion='adaptive', not {self.expansion!r}")
        if self.interactions is not None and self.expansion not in ("quadratic", "cubic"):
            raise OptionError("interactions need expansion='quadratic' or 'cubic': set expansion")
        if self.interactions is not None:
            from lineal.online.interactions import parse

            longest = max(len(product) for product in parse(self.interactions))
            if longest == 3 and self.expansion != "cubic":
                raise OptionError("interactions of three namespaces need expansion='cubic'")
        if self.theorem and (self.rate != 0.5 or self.power_t != 0.5):
            raise OptionError("theorem sets the learning rate: leave out rate and power_t")
        if self.theorem and (self.l2 == 0.0 or self.adaptive or self.normalised or self.invariant or self.l1 > 0.0):
            raise OptionError("theorem needs l2 > 0, l1 = 0 and adaptive, normalised and invariant switched off")

    def _refuse_idle(self) -> None:
        """Refuse, by name, options that would have no effect."""
        fresh = OnlineOptions()
        for names, counts, why in (
            (("hold_out", "patience"), self.passes > 1, "several passes: set passes"),
            (("patience",), self.hold_out > 0, "examples held out: set hold_out"),
            (("initial_t",), not self.adaptive, "rates that fall with the number of examples: switch adaptive off"),
            (("epochs",), self.schedule != "doubling", "schedules with a fixed number of epochs: doubling has no end"),
            (("caution",), self.adaptive and self.normalised, "rates that are adaptive and normalised"),
            (("shuffle_buffer",), self.shuffle, "rows in random order: set shuffle"),
        ):
            for name in names:
                if not counts and getattr(self, name) != getattr(fresh, name):
                    raise OptionError(f"{name}={getattr(self, name)!r} is for {why}")


def _at_least(least: int) -> Callable[[Any], bool]:
    return lambda value: operator.index(value) >= least
