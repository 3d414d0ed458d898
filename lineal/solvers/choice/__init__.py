"""Which solver `solver="auto"` takes: the first one by what is known about the rows, the next one when it is too slow.

Lives here: `rules.py` chooses the solvers, `progress.py` tells when to leave one, `in_turn.py` runs several.
May import: `lineal.problem` and everything below; the solvers themselves come from `lineal.solvers`.
To change a rule: measure it with `python -m benchmarks.auto`.
"""
