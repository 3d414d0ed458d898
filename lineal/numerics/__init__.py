"""Numerical methods that several solvers or families share, each written once.

Lives here: linear systems (`cg`, `precondition`, `factorisation`, `ridge`, `centred`, `basis`), scores of all rows for
Newton methods (`score_rows`), proximal updates (`composite`, `momentum`), when to compute a certificate
(`certificate_waits`, `gap_estimate`, `best_iterate`), `vectors`, `projections` and `links`, `label_residuals`, and the
checks that solvers share (`smooth_only`, `local_only`).
May import: `lineal.problem` and everything below it, but no solver.
To add a method: write one file, named after it, once it has a second user. Until then it lives with its only user.
"""
