"""Which solver `solver="auto"` takes: the first one by what is known about the rows, the next one when it is too slow.

Lives here: `rules.py` chooses the solvers, `progress.py` tells when to leave one, `in_turn.py` runs several, and
`stages.py` says which ones.
May import: `lineal.problem` and everything below, and the solvers that it judges.
To add a rule: put it in `rules.py`, and measure it with `python -m benchmarks.auto`.
"""
