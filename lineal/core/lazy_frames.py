"""Tables that are not computed yet: they have no rows to look at."""

from __future__ import annotations

import sys
from typing import Any

from lineal.errors import DataError


def refuse_lazy(X: Any) -> None:
    """Raise an error for a LazyFrame of polars, which is not imported for this."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(X, polars.LazyFrame):
        raise DataError("X is a LazyFrame of polars, which is not computed yet: give X.collect()")
