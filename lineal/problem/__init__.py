"""Learning problems: the objective, its certificate, and what all solvers share around it.

Lives here: the objective and its sums over rows (`objective`, `steps`, `row_sums`), the certificate, labels and row
weights, what every solver uses (`solver`, `budget`, `monitor`, `solution`), the safeguards around a solver (`minimise`,
`conditioned`), and checkpoints (`checkpoint`, `loop_state`, `fingerprint`).
May import: `lineal.engine` and everything below it: `data`, `losses`, `penalties`, `design`, `core`, `system`.
To add a sum over rows: write a step in `steps.py` (`lineal.engine.base` has the rules) and a method of `Objective` that
calls it. A sum that only one solver needs belongs to that solver.
"""
