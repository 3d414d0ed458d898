"""Stagewise regression (Algorithm 3): stage after stage of generated features, each fitted to what is left to explain.

`stagewise.py` is the loop, `features.py` makes the features of a stage, `running.py` keeps the running predictions, and
`residual_fit.py` and `label_fit.py` fit one stage. It may import `features`, `numerics` and what is below.
A new update is a name in `UPDATES` and an entry of `FITS` in `stagewise.py`.
"""

#: Names of the ways to fit a stage. They stand here so that help texts need not import the solver.
UPDATES = ("linear", "calibrated", "softmax")
