"""Options of online learners: estimator parameters and command-line flags are made from here."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lineal.errors import OptionError, unknown_value
from lineal.system.options import Options, option

LOSSES = ("logistic", "squared", "hinge", "quantile")
EXPANSIONS = ("quadratic", "cubic", "adaptive")
HEURISTICS = ("weight", "ssm")
SCHEDULES = ("auto", "halving", "equal", "doubling")
MIN_BITS, MAX_BITS = 10, 30

#: The rate that stands for a search, and what is tried.
TUNE = "tune"
RATES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True)
class OnlineOptions(Options):
    """How an online learner learns."""

    loss: str | None = option(
        None, f"loss of a score: {', '.join(LOSSES)}; None means logistic for classes, squared for numbers"
    )
    rate: float | str = option(0.5, "learning rate; 'tune' learns with several at once and keeps the best")
    power_t: float = option(0.5, "how fast steps shrink: with the sum of squared slopes (or examples) to this power")
    initial_t: float = option(0.0, "examples that count as seen before the first one, where rates are not adaptive")
    adaptive: bool = option(True, "a rate for every feature, by the squares of its slopes")
    normalised: bool = option(True, "features count relative to the largest value seen, so that their scales drop out")
    invariant: bool = option(True, "an example of importance 2 counts as two, and no step goes past the label")
    l1: float = option(0.0, "shrinks weights to zero, by this much of every step")
    l2: float = option(0.0, "shrinks weights by this share of every step")
    tau: float = option(0.5, "which quantile the quantile loss fits")
    bits: int = option(18, f"features go to 2**bits weights ({MIN_BITS} to {MAX_BITS})")
    passes: int = option(1, "passes over the rows; with several, some examples are held out to tell when to stop")
    hold_out: int = option(10, "with several passes, every so manieth example is held out; 0 for none")
    patience: int = option(3, "passes without gain on the examples held out, after which learning ends")
    expansion: str | None = option(None, f"products of features: {', '.join(EXPANSIONS)}, or None")
    interactions: Any = option(  # noqa: RUF009
        None, "namespaces whose features are multiplied, as a*b or a*b*c, several separated by commas; None for all"
    )
    epochs: int = option(6, "adaptive expansion: epochs, all but the last of which end with new monomials")
    growth: float = option(1.0, "adaptive expansion: new parents are (mean features an example)**growth")
    heuristic: str = option("weight", "adaptive expansion: parents are those of the largest weight, or by ssm")
    fallback: bool = option(False, "adaptive expansion: one of the new parents is of the least degree not yet chosen")
    picky: bool = option(False, "adaptive expansion: monomials are tested one by one before they count (slow)")
    schedule: str = option(
        "auto",
        "adaptive expansion: epochs end at a half, a quarter, … of all examples (halving), at equal steps (equal), or "
        "at 1000, 2000, 4000, … (doubling); auto is halving where the number of examples is known, and else doubling",
    )
    caution: float = option(
        0.3,
        "adaptive expansion: new monomials learn as if they had been in this share of the examples so far",
    )
    max_time: float | None = option(None, "seconds at most; what was learned so far is kept")
    n_jobs: int | None = option(None, "threads that read or try rates; learning itself is one. None means all cores")
    theorem: bool = option(False, "plain steps of length 1/(l2·(examples + 1)), for which regret bounds are proved")
    verbose: int = option(0, "1 shows the progressive loss at doubling numbers of examples")

    def checked(self) -> OnlineOptions:
        """The same options, or an error that names the first one that cannot be honoured."""
        for name, value, allowed in (
            ("loss", self.loss, (None, *LOSSES)),
            ("heuristic", self.heuristic, HEURISTICS),
            ("schedule", self.schedule, SCHEDULES),
        ):
            if value not in allowed:
                raise unknown_value(name, value, tuple(one for one in allowed if one))
        if self.expansion is not None and self.expansion not in EXPANSIONS:
            raise unknown_value("expansion", self.expansion, EXPANSIONS)
        self._check_numbers()
        self._check_together()
        return self

    def for_numbers(self, is_number: bool) -> OnlineOptions:
        """The same with the loss that these labels have by default; refuses one that is not for them."""
        if self.loss is None:
            return replace(self, loss="squared" if is_number else "logistic")
        if is_number and self.loss in ("logistic", "hinge"):
            raise OptionError(f"loss {self.loss!r} is for classes: numbers take squared or quantile")
        if not is_number and self.loss == "quantile":
            raise OptionError("loss 'quantile' fits numbers, not classes: use logistic, squared or hinge")
        return self

    def _check_numbers(self) -> None:
        for name in ("l1", "l2", "power_t", "initial_t", "growth", "caution"):
            self.need(name, lambda v: 0.0 <= v < math.inf, "a finite number ≥ 0")
        if self.rate != TUNE:
            self.need("rate", lambda v: 0.0 < v < math.inf, "a finite number > 0, or 'tune'")
        self.need_common("max_time")
        self.need("tau", lambda v: 0.0 < v < 1.0, "a number between 0 and 1")
        self.need_flags("adaptive", "normalised", "invariant", "fallback", "picky", "theorem")
        self.need(
            "bits", lambda v: MIN_BITS <= operator.index(v) <= MAX_BITS, f"a whole number from {MIN_BITS} to {MAX_BITS}"
        )
        for name, least in (("passes", 1), ("hold_out", 0), ("patience", 1), ("epochs", 1)):
            self.need(name, _at_least(least), f"a whole number ≥ {least}")
        if self.verbose is not True and self.verbose is not False:
            self.need_common("verbose")
        if self.hold_out == 1:
            raise OptionError("hold_out=1 leaves no example to learn from")

    def _check_together(self) -> None:
        self._refuse_idle()
        if self.tau != 0.5 and self.loss != "quantile":
            raise OptionError(f"tau={self.tau:g} is for loss='quantile', not {self.loss!r}")
        if self.expansion != "adaptive":
            fresh = OnlineOptions()
            for name in ("epochs", "growth", "heuristic", "fallback", "picky", "schedule", "caution"):
                if getattr(self, name) != getattr(fresh, name):
                    raise OptionError(f"{name} is for expansion='adaptive', not {self.expansion!r}")
        if self.interactions is not None and self.expansion not in ("quadratic", "cubic"):
            raise OptionError("interactions name what a quadratic or cubic expansion multiplies: set expansion")
        if self.interactions is not None:
            from lineal.online.interactions import parse

            longest = max(len(product) for product in parse(self.interactions))
            if longest == 3 and self.expansion != "cubic":
                raise OptionError("interactions of three namespaces need expansion='cubic'")
        if self.theorem and (self.rate != 0.5 or self.power_t != 0.5):
            raise OptionError("theorem says how long the steps are: leave out rate and power_t")
        if self.theorem and (self.l2 == 0.0 or self.adaptive or self.normalised or self.invariant or self.l1 > 0.0):
            raise OptionError("theorem needs l2 > 0, l1 = 0 and adaptive, normalised and invariant switched off")

    def _refuse_idle(self) -> None:
        """Refuse, by name, what would change nothing."""
        fresh = OnlineOptions()
        for names, counts, why in (
            (("hold_out", "patience"), self.passes > 1, "several passes: set passes"),
            (("patience",), self.hold_out > 0, "examples held out: set hold_out"),
            (("initial_t",), not self.adaptive, "steps that fall with the examples: switch adaptive off"),
            (("epochs",), self.schedule != "doubling", "schedules other than doubling, which goes on as examples come"),
            (("caution",), self.adaptive and self.normalised, "rates that are adaptive and normalised"),
        ):
            for name in names:
                if not counts and getattr(self, name) != getattr(fresh, name):
                    raise OptionError(f"{name}={getattr(self, name)!r} is for {why}")


def _at_least(least: int) -> Callable[[Any], bool]:
    return lambda value: operator.index(value) >= least
