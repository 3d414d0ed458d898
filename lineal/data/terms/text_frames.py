"""Sparse rows as what `set_output` of scikit-learn's transformers asks for, which is made for dense ones."""

from __future__ import annotations

from typing import Any

from lineal.system import memory


def in_frame(rows: Any, kind: str, X: Any) -> Any:
    """The rows unchanged, as a pandas frame with sparse columns and the index of X, or as an array for other frames.

    scikit-learn adds the names of the columns, and makes frames of arrays.
    """
    if kind == "default":
        return rows
    if kind == "pandas":
        import pandas as pd

        index = X.index if isinstance(X, pd.Series | pd.DataFrame) else None
        return pd.DataFrame.sparse.from_spmatrix(rows, index=index)
    needed = rows.shape[0] * rows.shape[1] * rows.dtype.itemsize
    memory.check_room(
        f"a {kind} frame of {rows.shape[0]} documents and {rows.shape[1]} terms has no sparse columns: it takes "
        f"{memory.size(needed)}",
        needed,
        "use max_features, or set_output(transform='default')",
    )
    return rows.toarray()
