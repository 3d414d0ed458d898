"""A judge of fits: random problems, judged by NumPy and by a solver that shares nothing with ours.

    python tests/judge.py --problem 1234      # everything about one problem, and how to repeat it
    python tests/judge.py --problems 0:500    # judge these, and count

What holds for every fit: its objective is the one that the documentation states; no bound is above any objective that
anyone found; "converged" is true; every number is finite; nothing warns; the message of a fit that did not converge
says what to do; a saved model predicts the same; predictions are those of NumPy. On some of the problems the same
problem is given in another form (other layout, precision, threads, order of classes, repeated rows, moved columns): the
answers of both forms are judged together.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import judge_peer
import numpy as np
from judge_objective import EPS, Stated, Wide
from judge_problems import FIRST, Problem, able_solvers, draw
from scipy.optimize import linprog

import lineal
from lineal.errors import OptionError

#: How a fit may end by itself, as documented.
STATUSES = ("converged", "max_iter", "max_time", "stalled")

#: What a message that says what to do has one of.
ADVICE = ("use ", "raise ", "scale ", "centre ", "give ", "subtract ")

#: Seconds after which a fit is cut.
MAX_TIME = 4.0

#: An answer that misses the best by more than this share of the objective of zero weights is counted as poor.
POOR = 1e-2

#: How often a fit that was cut is tried: the first times it may have had kernels to compile.
TRIES = 3


@dataclass
class Report:
    """What happened in all problems."""

    problems: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    poor: list[str] = field(default_factory=list)

    def measure(self, what: str, value: float, where: str) -> None:
        """Keep the worst of a kind."""
        if value > self.worst.get(what, (-math.inf, ""))[0]:
            self.worst[what] = (value, where)

    def add(self, other: Report) -> None:
        """Add what happened elsewhere."""
        self.problems += other.problems
        self.counts += other.counts
        self.endings += other.endings
        self.findings += other.findings
        self.poor += other.poor
        for what, (value, where) in other.worst.items():
            self.measure(what, value, where)

    def __str__(self) -> str:
        lines = [f"{self.problems} problems, " + ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))]
        for solver in sorted({solver for solver, _ in self.endings}):
            ends = {status: n for (name, status), n in sorted(self.endings.items()) if name == solver}
            lines.append(f"  {solver:14}" + ", ".join(f"{n} {status}" for status, n in ends.items()))
        lines += [f"  worst {what}: {value:.3g} ({where})" for what, (value, where) in sorted(self.worst.items())]
        kinds = Counter((finding.kind, finding.solver) for finding in self.findings)
        lines.append(f"{len(self.findings)} findings")
        lines += [f"  {n:4} × {kind}, {solver}" for (kind, solver), n in kinds.most_common()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Finding:
    """Something that should not be."""

    problem: int
    solver: str
    kind: str
    what: str

    def __str__(self) -> str:
        return f"problem {self.problem}, {self.solver}: {self.kind}: {self.what}"


@dataclass(frozen=True)
class Fit:
    """A fitted classifier, and its answer in the problem's own terms: W, b and the exact objective there."""

    name: str
    classifier: lineal.LinearClassifier
    message: str
    W: np.ndarray
    b: np.ndarray
    objective: float


class Judge:
    """Judges one problem."""

    def __init__(self, problem: Problem, report: Report, say: Callable[[str], None] = lambda text: None) -> None:
        self.problem, self.report, self.say = problem, report, say
        self.stated: Stated = problem.stated()
        self.fits: list[Fit] = []
        self.candidates: list[tuple[str, float]] = []

    def run(self) -> None:
        """Fit, judge, count."""
        self.report.problems += 1
        for solver in self.problem.solvers:
            self.add(solver, self.problem, lambda W, b: (W, b))
        for name, other, back in forms(self.problem):
            self.add(name, other, back)
        k = self.stated.has.shape[1]
        d = self.problem.X.shape[1]
        zero = np.zeros((d, k))
        self.offer("zero", zero, np.zeros(k))
        with np.errstate(all="ignore"):
            peer = judge_peer.candidate(self.stated)
        if peer is not None:
            self.report.counts["answers of Clarabel"] += 1
            self.offer("Clarabel", *peer)
        self.compare()

    def offer(self, name: str, W: np.ndarray, b: np.ndarray) -> float:
        """Objective of an answer, which no bound may exceed."""
        value = self.stated.value(W, b)
        if math.isfinite(value):
            self.candidates.append((name, value))
            self.say(f"  {name}: objective {value:.17g}")
        return value

    def found(self, solver: str, kind: str, what: str) -> None:
        """Note a finding."""
        self.report.findings.append(Finding(self.problem.number, solver, kind, what))
        self.say(f"  FINDING {solver}: {kind}: {what}")

    def add(self, name: str, problem: Problem, back: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
        """Fit one form of the problem; `back` maps its answer to that of the problem itself."""
        solver = name.partition(" ")[0]
        jobs = 2 if name.endswith("threads") else 1
        classifier = lineal.LinearClassifier(**problem.options, solver=solver, max_time=MAX_TIME, n_jobs=jobs)
        X = problem.rows
        for _ in range(TRIES):
            began = time.perf_counter()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    classifier.fit(X, problem.y, sample_weight=problem.sample_weight, offsets=problem.offsets)
                except OptionError as refusal:
                    self.refused(name, str(refusal))
                    return
                except Exception as error:
                    self.found(name, "exception", f"{type(error).__name__}: {error}")
                    return
            if classifier.status_ != "max_time":
                break
        self.report.counts["fits"] += 1
        self.report.measure("seconds", time.perf_counter() - began, f"problem {problem.number}, {name}")
        status = classifier.status_
        self.report.endings[solver, status] += 1
        message = self.check_warnings(name, status, caught)
        certificate = classifier.certificate_
        self.say(f"  {name}: {status}, {certificate}")
        W, b = np.asarray(classifier.model_.weights), classifier.model_.intercept
        numbers = [certificate.value, certificate.primal, 0.0 if certificate.dual is None else certificate.dual]
        if not (np.isfinite(W).all() and np.isfinite(b).all() and np.isfinite(numbers).all()):
            self.found(name, "not finite", f"weights or certificate: {certificate}")
            return
        wrong = {  # what was not computed is None, and an estimate of the gap may be infinite
            column
            for row in classifier.history_
            for column, value in row.items()
            if isinstance(value, int | float) and (math.isnan(value) or (math.isinf(value) and column != "gap"))
        }
        if wrong:
            self.found(name, "history not finite", ", ".join(sorted(wrong)))
        mine = problem.stated()
        exact, rounding = mine.value(W, b), mine.rounding(W, b)
        error = abs(certificate.primal - exact)
        where = f"problem {problem.number}, {name}"
        self.report.measure("error of the objective / rounding", error / rounding, where)
        if error > rounding:
            self.found(name, "primal", f"{certificate.primal!r} instead of {exact!r} ± {rounding:.2g}")
        self.check_model(name, problem, classifier, X)
        W, b = back(W, b)
        self.fits.append(Fit(name, classifier, message, W, b, self.offer(name, W, b)))

    def refused(self, name: str, why: str) -> None:
        """Count a refusal; one of what the documentation promises, or by "auto" of what some solver does, is wrong."""
        self.report.counts["refusals"] += 1
        options = self.problem.options
        able = able_solvers(options["loss"], options["penalty"], options["feature_groups"], self.stated.strengths)
        if name.partition(" ")[0] in (*able, "auto" if able else ""):
            self.found(name, "refusal", why)

    def check_warnings(self, name: str, status: str, caught: list[Any]) -> str:
        """The message of a fit that did not converge; every other warning is a finding."""
        kinds = [warning.category.__name__ for warning in caught]
        messages = [str(warning.message) for warning in caught]
        if status not in STATUSES:
            self.found(name, "status", status)
        message = messages[kinds.index("ConvergenceWarning")] if "ConvergenceWarning" in kinds else ""
        if status != "converged":
            if not message:
                self.found(name, "no message", status)
                return ""
            if not any(word in message for word in ADVICE):
                self.found(name, "message without advice", message)
        others = {
            f"{kind}: {text} ({os.path.basename(warning.filename)}:{warning.lineno})"
            for kind, text, warning in zip(kinds, messages, caught)
            if kind != "ConvergenceWarning" or (status == "converged" and "infinity" not in text)
        }
        for text in sorted(others):
            self.found(name, "warning", text)
        return message

    def check_model(self, name: str, problem: Problem, classifier: Any, X: Any) -> None:
        """Predictions are those of NumPy, and of the saved model."""
        model = classifier.model_
        scores, labels = classifier.decision_function(X), classifier.predict(X)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            model.save(path)
            loaded = lineal.load(path)
        if not (
            np.array_equal(loaded.decision_function(X), scores)
            and np.array_equal(np.asarray(loaded.predict(X)), labels)
        ):
            self.found(name, "saved model", "other predictions than before")
        W, b = np.asarray(model.weights).astype(Wide), model.intercept.astype(Wide)
        exact = problem.X.astype(Wide) @ W + b
        eps = float(np.finfo(problem.dtype).eps)
        room = (problem.X.shape[1] + 4) * eps * (np.abs(problem.X) @ np.abs(W) + np.abs(b))
        if not problem.is_multilabel and len(problem.classes) == 2 and exact.shape[1] == 2:
            exact, room = exact[:, 1:] - exact[:, :1], 2 * room.sum(axis=1, keepdims=True)
        found = scores.reshape(exact.shape)
        if not (np.abs(found - exact) <= room + 1e-30).all():
            self.found(name, "scores", f"off by {float(np.abs(found - exact).max()):.3g}")
        self.check_labels(name, problem, model, exact, room, labels)

    def check_labels(
        self, name: str, problem: Problem, model: Any, exact: np.ndarray, room: np.ndarray, labels: np.ndarray
    ) -> None:
        """Labels are those of the exact scores, where rounding does not decide."""
        classes = problem.classes
        if problem.is_multilabel:
            cut, error = np.zeros((len(exact), 1)), room
            if model.thresholds is not None:
                c = model.thresholds.astype(Wide)
                cut = (exact @ c[:-1] + c[-1])[:, None]
                sizes = np.abs(exact) @ np.abs(c[:-1]) + np.abs(c[-1])
                eps = float(np.finfo(problem.dtype).eps)
                error = room + (room @ np.abs(c[:-1]) + (len(c) + 4) * eps * sizes)[:, None]
            sure = np.abs(exact - cut) > error
            wrong = sure & ((exact > cut) != (labels != 0))
        elif exact.shape[1] == 1:
            wrong = (np.abs(exact[:, 0]) > room[:, 0]) & (classes[(exact[:, 0] > 0).astype(int)] != labels)
        else:
            order = np.sort(exact, axis=1)
            sure = order[:, -1] - order[:, -2] > 2 * room.max(axis=1)
            wrong = sure & (classes[exact.argmax(axis=1)] != labels)
        if wrong.any():
            self.found(name, "labels", f"{int(wrong.sum())} of {len(exact)} rows")

    def compare(self) -> None:
        """No bound above any objective; "converged" within tol of the best; nothing worse than no model."""
        best_name, best = min(self.candidates, key=lambda pair: pair[1])
        n, d = self.problem.X.shape
        zero = dict(self.candidates)["zero"]
        tol = self.problem.options["tol"]
        slack = (n + d + 30) * 4 * EPS * best + 1e-300  # below the range of float64 there are few digits
        for fit in self.fits:
            certificate, name = fit.classifier.certificate_, fit.name
            where = f"problem {self.problem.number}, {name}"
            if certificate.dual is not None:
                above = certificate.dual - best
                self.report.measure("bound above an objective / objective", above / best if best > 0 else 0.0, where)
                if above > slack:
                    self.found(name, "bound", f"{certificate.dual!r} above {best!r} of {best_name}")
            rounding = self.stated.rounding(fit.W, fit.b)
            missed = (fit.objective - best) / fit.objective if fit.objective > 0 else 0.0
            if fit.classifier.status_ == "converged" and certificate.kind == "gap":
                self.report.measure("missed by converged / tol", missed / tol, where)
                if fit.objective - best > tol * fit.objective + rounding:
                    self.found(name, "not converged", f"{fit.objective!r} against {best!r} of {best_name}")
            elif missed > max(0.1, 10 * tol) and fit.objective - best > POOR * zero:
                self.report.counts[f"poor answers of {name.partition(' ')[0]}"] += 1
                self.report.poor.append(
                    f"{where}: {fit.objective:.6g} against {best:.6g} of {best_name}; {fit.classifier.status_}"
                )
            # What is within tol of the best is as good as zero weights that are nearer to it.
            is_within = fit.classifier.status_ == "converged" and certificate.kind == "gap"
            seeks_minimum = not name.startswith("averaging")
            if seeks_minimum and fit.objective > zero * (1 + max(1e-6, tol * is_within)) + rounding:
                self.found(name, "worse than zero weights", f"{fit.objective!r}, zero weights have {zero!r}")
            if self.has_minimum_at_infinity and "infinity" not in fit.message and separates(self.stated, fit.W, fit.b):
                self.found(name, "message without infinity", fit.message)
            if "infinity" in fit.message and not self.has_minimum_at_infinity:
                self.found(name, "message with infinity", fit.message)

    @cached_property
    def has_minimum_at_infinity(self) -> bool:
        """Whether the loss falls for ever along some direction that nothing holds back."""
        return self.stated.loss in ("logistic", "softmax") and is_separable(self.stated)


def separates(stated: Stated, W: np.ndarray, b: np.ndarray) -> bool:
    """Whether these weights, none of which has a penalty, give every row a margin."""
    kept = stated.weights > 0
    Z, has = stated.X[kept] @ np.asarray(W, np.float64) + b, stated.has[kept]
    if stated.strengths.any():
        return False
    if stated.loss != "softmax":
        return bool((np.where(has, Z, -Z) > 0).all(axis=0).any())
    return bool((np.where(has, Z, np.inf).min(axis=1) > np.where(has, -np.inf, Z).max(axis=1)).all())


def is_separable(stated: Stated) -> bool:
    """Whether some weights without a penalty give every row a margin, one-vs-rest losses in one column at least."""
    kept = stated.weights > 0
    free = [j for block, strength in zip(stated.blocks, stated.strengths) if strength == 0.0 for j in block]
    if not free:
        return False
    X, has = stated.X[kept][:, free], stated.has[kept]
    X = X - X.mean(axis=0) if stated.fit_intercept else X
    X = X / np.maximum(np.abs(X).max(axis=0), 1e-300)
    X = np.hstack([X, np.ones((len(X), 1))]) if stated.fit_intercept else X
    if stated.loss != "softmax":
        return any(_has_point(np.where(column, 1.0, -1.0)[:, None] * X) for column in has.T)
    rows, others = np.nonzero(~has)
    A = np.zeros((len(rows), has.shape[1], X.shape[1]))
    A[np.arange(len(rows)), has.argmax(axis=1)[rows]] = X[rows]
    A[np.arange(len(rows)), others] = -X[rows]
    return _has_point(A.reshape(len(rows), -1))


def _has_point(A: np.ndarray) -> bool:
    """Whether A v ≥ 1 has a solution."""
    answer = linprog(np.zeros(A.shape[1]), A_ub=-A, b_ub=-np.ones(len(A)), bounds=(-1e6, 1e6), method="highs")
    return answer.status == 0


def forms(problem: Problem) -> Iterable[tuple[str, Problem, Callable[..., tuple[np.ndarray, np.ndarray]]]]:
    """The same problem in another form, for one of its solvers and on one of three problems."""
    number = problem.number
    if number % 3:
        return
    rng = np.random.default_rng([number, 1])
    solver = problem.solvers[-1]
    same = lambda W, b: (W, b)  # noqa: E731
    which = number // 3 % 7 if number >= FIRST else 3 + number // 3 % 4
    if which == 0:
        yield f"{solver} as C", replace(problem, layout="C"), same
    elif which == 1:
        other = "csc" if problem.layout == "csr" else "csr"
        yield f"{solver} as {other}", replace(problem, layout=other), same
    elif which == 2 and problem.dtype == "float32":
        offsets = None if problem.offsets is None else problem.offsets.astype("f4").astype("f8")
        yield f"{solver} as float64", replace(problem, dtype="float64", offsets=offsets), same
    elif which == 3:
        yield f"{solver} on two threads", problem, same
    elif which == 4 and problem.is_multilabel | (problem.has.shape[1] > 1):
        yield _permuted(problem, solver, rng)
    elif which == 5:
        yield _repeated(problem, solver, rng)
    elif which == 6 and problem.options["fit_intercept"]:
        moved = _moved(problem, solver, rng)
        if moved is not None:
            yield moved


def _permuted(problem: Problem, solver: str, rng: np.random.Generator) -> Any:
    """Other order of the classes: column order[r] of the problem is column r of this form."""
    order = rng.permutation(problem.has.shape[1])
    place = np.argsort(order)
    y = problem.y[:, order] if problem.is_multilabel else place[problem.y]
    offsets = None if problem.offsets is None else problem.offsets[:, order]
    options = dict(problem.options)
    if isinstance(options["class_weight"], dict):
        options["class_weight"] = {int(place[label]): w for label, w in options["class_weight"].items()}
    form = replace(problem, y=y, offsets=offsets, options=options)
    return f"{solver} with permuted classes", form, lambda W, b: (W[:, place], b[place])


def _repeated(problem: Problem, solver: str, rng: np.random.Generator) -> Any:
    """Rows with half their weight twice."""
    twice = rng.random(len(problem.y)) < 0.4
    s = np.ones(len(problem.y)) if problem.sample_weight is None else problem.sample_weight
    s = np.where(twice, s / 2, s)
    rows = np.concatenate([np.arange(len(s)), np.flatnonzero(twice)])
    offsets = None if problem.offsets is None else problem.offsets[rows]
    form = replace(problem, X=problem.X[rows], y=problem.y[rows], sample_weight=s[rows], offsets=offsets)
    return f"{solver} with repeated rows", form, lambda W, b: (W, b)


def _moved(problem: Problem, solver: str, rng: np.random.Generator) -> Any:
    """One column plus a constant, where that is exact; else None."""
    j = int(rng.integers(problem.X.shape[1]))
    spread = float(problem.X[:, j].std())
    constant = float(2.0 ** np.round(np.log2(spread * rng.choice([1.0, 1e3])))) if spread > 0 else 1.0
    X = problem.X.copy()
    X[:, j] += constant
    if not (
        np.array_equal(X[:, j] - constant, problem.X[:, j]) and np.array_equal(X.astype(problem.dtype).astype("f8"), X)
    ):
        return None
    form = replace(problem, X=X)
    return f"{solver} with a moved column", form, lambda W, b: (W, b.astype(Wide) + Wide(constant) * W[j].astype(Wide))


def judge(numbers: Iterable[int], report: Report | None = None) -> Report:
    """Judge problems, given by their numbers."""
    report = report or Report()
    for number in numbers:
        Judge(draw(number), report).run()
    return report


def _show(number: int) -> None:
    """Everything about one problem."""
    problem = draw(number)
    print(problem)
    np.set_printoptions(linewidth=200, threshold=200)
    print(f"X =\n{problem.X}\ny = {problem.y.tolist()}\nweights = {problem.sample_weight}\noffsets = {problem.offsets}")
    report = Report()
    Judge(problem, report, print).run()
    for solver in sorted({finding.solver.partition(" ")[0] for finding in report.findings}):
        print(f"\nto repeat it ({solver}):\n{problem.snippet(solver)}")


def _part(numbers: list[int]) -> Report:
    report = Report()
    for number in numbers:
        before = len(report.findings), len(report.poor)
        Judge(draw(number), report).run()
        for finding in report.findings[before[0] :]:
            print(finding, flush=True)
        for text in report.poor[before[1] :]:
            print(f"poor: {text}", flush=True)
    return report


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", type=int, help="show one problem")
    parser.add_argument("--problems", default="0:200", help="judge the problems first:end")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    if arguments.problem is not None:
        _show(arguments.problem)
        return 0
    numbers = list(range(*map(int, arguments.problems.split(":"))))
    report = Report()
    if arguments.jobs == 1:
        report.add(_part(numbers))
    else:
        from concurrent.futures import ProcessPoolExecutor

        parts = [numbers[i :: 8 * arguments.jobs] for i in range(8 * arguments.jobs)]
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for part in pool.map(_part, parts):
                report.add(part)
    print(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
