"""The algorithms of Blondel, Seki & Uehara (2013) as they were published, for comparisons.

Lives here: `paper.py` has `solve`, `sweeps.py` the state and the sweeps, and `group_updates.py` the kernels.
May import: what `lineal.solvers.block_cd` may, and the files of that folder.
To add a method: add its name to `BlockOptions`, and its way to visit groups to `PaperSweeps`.
"""
