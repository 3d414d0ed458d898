"""`Design`: a user's matrix as a layout that kernels can read, without a copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from lineal.core.inputs import checked
from lineal.core.jit import kernel
from lineal.design.csc import CSC
from lineal.design.csr import CSR
from lineal.design.dense import Dense
from lineal.errors import DataError


@dataclass(frozen=True)
class Design:
    """A matrix X of n rows and d columns.

    Its arrays are read-only views: Numba compiles other kernels for arrays that can be written to, and rows that are
    mapped from a file cannot.

    Attributes
    ----------
    layout : the NamedTuple (`Dense`, `CSR` or `CSC`) that is passed to kernels.
    shape : number of rows and columns, (n, d).
    dtype : float32 or float64; nothing downstream converts it.
    is_sorted : whether the indices of each sparse row (or column) are ascending.
    copies : copies of this matrix that solvers needed, by name: in another order (`lineal.design.orders`), with shifted
        columns or in other units (`lineal.problem.conditioned`).
    """

    layout: Any
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sorted: bool = True
    copies: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", read_only(self.layout))

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, without the copies: the receiver can make them faster than they can be sent."""
        return {**self.__dict__, "copies": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def is_dense(self) -> bool:
        """Whether all entries are stored."""
        return isinstance(self.layout, Dense)

    @property
    def has_rows(self) -> bool:
        """Whether a range of rows is a cheap view. It is for all layouts but CSC."""
        return not isinstance(self.layout, CSC)

    @property
    def stored(self) -> int:
        """Number of stored entries."""
        if isinstance(self.layout, Dense):
            return int(self.layout.values.size)
        return int(self.layout.indptr[-1] - self.layout.indptr[0])

    @property
    def nbytes(self) -> int:
        """Number of bytes that a copy of the matrix takes."""
        if isinstance(self.layout, Dense):
            return int(self.layout.values.size * self.dtype.itemsize)
        entry = self.layout.data.itemsize + self.layout.indices.itemsize
        return self.stored * entry + int(self.layout.indptr.nbytes)

    def rows(self, start: int, stop: int) -> Design:
        """Rows start … stop − 1 as a view."""
        shape = (stop - start, self.shape[1])
        if isinstance(self.layout, Dense):
            return Design(Dense(self.layout.values[start:stop]), shape, self.dtype)
        if isinstance(self.layout, CSR):
            part = self.layout._replace(indptr=self.layout.indptr[start : stop + 1])
            return Design(part, shape, self.dtype, self.is_sorted)
        if (start, stop) == (0, self.shape[0]):
            return self
        raise DataError("a CSC matrix has no views of some of its rows: convert it with X.tocsr()")


def read_only(layout: Any) -> Any:
    """A layout, or another NamedTuple, with read-only views of its arrays."""
    return layout._replace(**{name: _view(part) for name, part in layout._asdict().items() if _is_writable(part)})


def _is_writable(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.flags.writeable


def _view(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def wrap(X: Any) -> Design:
    """View a matrix as a `Design`: float32 or float64; ndarray, or SciPy CSR/CSC with int32 or int64 indices.

    The matrix is copied in two cases only: a dense array that is neither C- nor F-contiguous becomes C-contiguous, and
    repeated entries of a sparse matrix are added up. The sparse structure is checked first (`lineal.core.inputs`),
    because kernels do not check bounds.
    """
    if isinstance(X, Design):
        return X
    if not (isinstance(X, np.ndarray) or (sparse.issparse(X) and X.format in ("csr", "csc"))):
        raise DataError(f"X must be a NumPy array or a SciPy CSR or CSC matrix, found {type(X).__name__}")
    X = checked(X, "X")
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions, found {X.ndim}")
    if X.dtype not in (np.float32, np.float64):
        raise DataError(f"X must be float32 or float64, found {X.dtype}: convert it with X.astype(np.float32)")
    if isinstance(X, np.ndarray):
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            X = np.ascontiguousarray(X)
        return Design(Dense(X.view(np.ndarray)), X.shape, X.dtype)
    layout, other = (CSR, X.shape[1]) if X.format == "csr" else (CSC, X.shape[0])
    X, is_sorted = _summed(X, other)
    return Design(layout(X.data, X.indices, X.indptr, other), X.shape, X.dtype, is_sorted)


def wrap_any(X: Any) -> Design:
    """View a matrix as `wrap` does, for numbers of other types too; for solvers that need only products with X.

    Dense numbers of one or two bytes have products in float32, others in float64; the products convert a few rows at a
    time (`lineal.design.products`). Dense X is copied only if its numbers are wider than float64. The stored entries of
    a sparse matrix are converted.
    """
    if isinstance(X, Design) or X.dtype in (np.float32, np.float64) or X.dtype.kind not in "fiub":
        return wrap(X)
    dtype = np.dtype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    if sparse.issparse(X) or X.dtype.itemsize > dtype.itemsize:
        return wrap(X.astype(dtype))
    return Design(Dense(np.asarray(X)), X.shape, dtype) if X.ndim == 2 else wrap(X)


def unwrapped(X: Design) -> np.ndarray | sparse.csr_array | sparse.csc_array:
    """The matrix of a `Design` as a NumPy array or a SciPy matrix; its entries are not copied."""
    if isinstance(X.layout, Dense):
        return X.layout.values
    data, indices, indptr, _ = X.layout
    first, last = indptr[0], indptr[-1]
    kind = sparse.csr_array if isinstance(X.layout, CSR) else sparse.csc_array
    return kind((data[first:last], indices[first:last], indptr - first), shape=X.shape)


def summed(X: Any) -> Any:
    """A CSR or CSC matrix whose repeated entries are added up. A matrix without repeated entries is not copied.

    SciPy's flags are not used, because they can be set by hand.
    """
    return _summed(X, X.shape[1] if X.format == "csr" else X.shape[0])[0]


def _summed(X: Any, other: int) -> tuple[Any, bool]:
    """The matrix without repeated entries, and whether its indices are ascending."""
    state = find_order(X.indices, X.indptr)
    if state == REPEATED or (state == UNSORTED and has_repeats(X.indices, X.indptr, other)):
        X, state = X.copy(), SORTED
        X.sum_duplicates()
    return X, state == SORTED


def in_float64(X: Design) -> Design:
    """A copy of X with float64 entries, in the same layout."""
    if isinstance(X.layout, Dense):
        layout: Any = Dense(X.layout.values.astype(np.float64, order="K"))
    else:
        layout = X.layout._replace(data=X.layout.data.astype(np.float64))
    return Design(layout, X.shape, np.dtype(np.float64), X.is_sorted)


#: Results of `find_order`: the indices of all rows are ascending; those of some rows are not; they are ascending, but
#: some are repeated.
SORTED, UNSORTED, REPEATED = 1, 0, 2


@kernel
def find_order(indices, indptr):
    """Order of the indices of a compressed matrix whose structure has been checked."""
    is_sorted, is_repeated = True, False
    for i in range(indptr.shape[0] - 1):
        before = -1
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            if j < before:
                is_sorted = False
            elif j == before:
                is_repeated = True
            before = j
    return UNSORTED if not is_sorted else REPEATED if is_repeated else SORTED


@kernel
def has_repeats(indices, indptr, n_columns):
    """Whether an index occurs twice in a row that is not sorted."""
    seen_in = np.full(n_columns, -1, np.int64)
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            if seen_in[indices[p]] == i:
                return True
            seen_in[indices[p]] = i
    return False
