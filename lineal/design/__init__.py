"""The matrix X as kernels see it. Dense or sparse is decided here, once, and nowhere else.

Lives here: the layouts (`dense`, `csr`, `csc`), `Design`, which wraps a user's matrix in one of them (`matrix`),
products with it (`products`, and the tiles that it uses), copies in another order, of some columns or with shifted
columns (`orders`, `shift`), and rules for constant and far columns (`odd_columns`).
May import: `lineal.core`, `lineal.system` and `lineal.errors`.
To add a layout: write a file with a `protocol` class that has the row methods of `csr.py`, the column methods of
`csc.py` or both, and extend `wrap`, `Design.rows` and `products.py`. CONTRIBUTING.md has an example.
"""

from lineal.design.matrix import Design, wrap

__all__ = ["Design", "wrap"]
