"""lineal against LIBLINEAR, celer, skglm and scikit-learn at equal objectives, and its algorithms against each other.

One file a part: `ratios` (time to an accuracy), `softmax`, `defaults` (what users get without options), `memory`,
`curves` (objective against time). `problems` has the data and the problems, `exact` the objective that
judges all contestants, `peers` and `ours` run them.
"""
