"""Foundation of all compiled code; it contains no learning logic.

Lives here: the decorator of kernels (`jit`), where compiled kernels come from (`kernel_files`, `sources`, `shipped`,
`levels`), methods that kernels can call (`protocol`), scalar maths (`maths`), vector registers (`simd`), random numbers
(`rng`), threads (`threads`) and dense products on them (`blas`), checks of arrays from outside (`inputs`), and weights
with few non-zero rows (`row_sparse`). The last two import no Numba: models predict without it.
May import: `lineal.system` and `lineal.errors`. Private names of Numba are imported in `numba_internals` only.
To add to it: a function belongs here if two folders above need it and it knows neither losses, matrices nor solvers.
"""
