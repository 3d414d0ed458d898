"""Adaptive polynomial expansions: lineal and Vowpal Wabbit in the experiments of a paper.

Agarwal, Beygelzimer, Hsu, Langford & Telgarsky (2014), "Scalable nonlinear learning with adaptive polynomial
expansions". Parts: `figures` (errors and times of all sets: Figs. 1 to 4) and `target` (one monomial of degree four, as
in section 2.3). `problems` has the data, `ours` runs lineal, `vw` runs Vowpal Wabbit, `relative` has the measures of
the paper, `plots` draws.
"""
