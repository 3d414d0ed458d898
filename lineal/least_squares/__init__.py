"""The family of least-squares models: generalised (Algorithm 1) and calibrated (Algorithm 2) least squares.

Options, fit, model and estimator, and `links.py` for link functions that users write. It may import `linear`, `models`,
`solvers` and what is below. The algorithms themselves are in `lineal.solvers`. To add a link, see `links.py`;
to add a method, write it in `lineal.solvers` and name it in `options.py`.
"""
