"""The family of stagewise models: generated features, fitted stage by stage (Algorithm 3).

Options, fit, model and estimator, and `search.py`, which chooses options on a sample. It may import `models`,
`solvers`, `features` and what is below. A new way to fit a stage belongs in `lineal.solvers.stagewise`.
"""
