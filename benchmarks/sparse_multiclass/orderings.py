"""What the paper found to be faster, sparser or better than what, beside what is found here."""

from __future__ import annotations

from typing import Any

COLUMNS = ("data", "λ", "the paper", "at", "first", "second", "here")

#: The paper's section, who was ahead, of whom, and by how much it says so.
SPEED = (
    ("5.2.1", "BCD-LS", "BCD-CST", "slightly"),
    ("5.2.2", "BCD-LS", "FOBOS", "on small data; about equal on large"),
    ("5.2.3", "BCD-LS", "FISTA-LS", "on all data"),
    ("5.2.3", "BCD-LS", "SpaRSA", "on all data"),
    ("5.2.3", "FISTA-LS", "SpaRSA", "slightly"),
    ("5.2.3", "FISTA-LS", "FISTA-CST", "by far"),
)
SPARSITY = (("5.2.2", "BCD-LS", "FOBOS", "much sparser"),)

#: Suboptimalities at which times are compared: the smallest that one of the two reaches.
LEVELS = (1e-4, 1e-3, 1e-2, 1e-1)

#: Times and counts this close are about equal.
EQUAL = 1.2


def of_solvers(data: str, alpha: float, found: dict[str, list[dict[str, float]]], least: float) -> list[list[Any]]:
    """Rows of the table, for pairs that both ran."""
    table: list[list[Any]] = []
    for section, one, other, words in SPEED:
        if not (found.get(one) and found.get(other)):
            continue
        level, first, second = _times(found[one], found[other], least)
        claim = f"{one} before {other}, {words} ({section})"
        at = "nowhere" if level is None else f"{level:g}, seconds"
        table.append([data, f"{alpha:g}", claim, at, first, second, verdict(first, second)])
    for section, one, other, words in SPARSITY:
        if found.get(one) and found.get(other):
            rows = [found[name][-1]["live_rows"] for name in (one, other)]
            claim = f"{one} {words} than {other} ({section})"
            table.append([data, f"{alpha:g}", claim, "end, rows", *(f"{r:.1%}" for r in rows), verdict(*rows)])
    return table


def _times(
    one: list[dict[str, float]], other: list[dict[str, float]], least: float
) -> tuple[float | None, float | None, float | None]:
    for level in LEVELS:
        pair = [
            next((point["seconds"] for point in points if point["objective"] <= least * (1.0 + level)), None)
            for points in (one, other)
        ]
        if any(seconds is not None for seconds in pair):
            return level, pair[0], pair[1]
    return None, None, None


def verdict(first: float | None, second: float | None) -> str:
    """Whether the first is smaller."""
    if first is None:
        return "differs" if second is not None else "open"
    if second is None or second > EQUAL * first:
        return "agrees"
    return "differs" if first > EQUAL * second else "about equal"
