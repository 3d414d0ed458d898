"""Engines hold the rows and run the steps of solvers on them.

Lives here: `base.py` is the contract between solvers and rows, `state.py` is row state (numbers per row that are kept
where the rows are), `overdue.py` says when a pass is to be given up, and every other file is one engine.
May import: `lineal.data`, `lineal.design`, `lineal.core`, `lineal.system` and `lineal.errors`.
To add an engine: write a class with the members of `base.Engine`, keep row state with `state.StateCache`, and run
`tests/engine` on it. Every solver that needs only sums over rows then runs on it.
"""
