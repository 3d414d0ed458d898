"""Numerical methods that several solvers or families share, each written once.

Lives here: linear systems (`cg`, `precondition`, `second_moment`, `basis`), scores of all rows for Newton methods
(`score_rows`), proximal updates (`composite`), when to compute a certificate (`gap_estimate`, `best_iterate`), vector
operations, projections and links, and the checks that solvers share (`smooth_only`, `local_only`).
May import: `lineal.problem` and everything below it, but no solver.
To add a method: write one file, named after it, once it has a second user. Until then it lives with its only user.
"""
