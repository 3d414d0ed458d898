"""Linear models with any loss and penalty, fitted by any solver that supports them.

`options`, `fit`, `model` and `estimator`; what is learnt after a fit (`finish`, from `held_out` scores: `calibration`
of probabilities, `thresholds` of label sets, `decisions` for one label per row); and `search`, which chooses the
strength of the penalty. May import `models`, `solvers` and what is below. Rows are reached
through the engine alone: what needs them is a step (`lineal.engine.base`). To add an option, add a field to
`TrainOptions`; estimators and the command line get it from there.
"""
