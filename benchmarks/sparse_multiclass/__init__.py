"""Group-sparse multi-class models: lineal against lightning, skglm, celer and adelie, and the experiments of a paper.

The paper is Blondel, Seki & Uehara, "Block coordinate descent algorithms for large-scale sparse multiclass
classification" (Machine Learning, 2013). One file a part: `lightning`, `peers` (time to the others' objectives), `weak`
(what a weak penalty costs), `figures` (Figs. 2–4, sections 5.2.4 and 5.3.1), `table2` (Fig. 5 and Table 2), `screening`
(what is proven to be zero) and `amazon` (a generated set with the shape of the paper's largest). `problems` has the
data and strengths of the penalty, `exact` the objective that judges all contestants, `ours` runs lineal, `elsewhere`
other interpreters. Nothing has an intercept, as in the paper.
"""
