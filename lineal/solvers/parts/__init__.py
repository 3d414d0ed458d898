"""Parts that solvers share: the monitor of a run, line search, preconditioners."""
