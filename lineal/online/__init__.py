"""Online learning: options, fit, model and estimators, the learner with its kernels, and features that it chooses.

Several learners that share the rows are in `parallel.py` (passes), `learner_pass.py`, `average.py`, `learner_rows.py`
(who has which rows) and `places.py` (threads or a cluster).
May import `linear`, `models` and what is below, but not other families, `dropin`, `cli` or `report`. To add a loss, see
`loss.py`; to add a kind of product of features, see `monomials.py` (kernels) and `expansion.py`.
"""
