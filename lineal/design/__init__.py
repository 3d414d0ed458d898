"""The matrix X as kernels see it. Dense or sparse is decided here, once, and nowhere else.

Lives here: the layouts (`dense`, `csr`, `csc`), `Design`, which wraps a user's matrix in one of them (`matrix`, and
`narrow` for other number types), products with it (`products` and its tiles), copies in another order or of some
columns (`orders`, `columns`, `shift`), and which columns are constant (`constant_columns`).
May import: `lineal.core`, `lineal.system` and `lineal.errors`.
To add a layout: write a file with a `protocol` class that has the row methods of `csr.py`, the column methods of
`csc.py` or both, and let `wrap`, `Design.rows` and `products.py` know it. CONTRIBUTING.md has an example.
"""

from lineal.design.matrix import Design, wrap

__all__ = ["Design", "wrap"]
