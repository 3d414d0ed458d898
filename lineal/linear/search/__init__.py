"""The strength of the penalty, chosen by cross-validation along warm-started paths of α.

`run` drives the search, `alphas` says which strengths are tried, `measures` scores held-out rows, and `result` holds
the outcome. May import what `lineal.linear` may. To add a measure, name it in `names` and compute it in `measures`.
"""
