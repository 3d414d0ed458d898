"""What all trained models have in common: predictions from scores, estimators around models, model files and metrics.

May import `solvers`, `features`, `numerics` and what is below. A new kind of model is a `Predictor` in its family's
folder with `to_parts` and `from_parts`, and has a line in `_KINDS` of `file.py`.
"""
