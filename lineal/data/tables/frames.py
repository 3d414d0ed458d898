"""Tables in memory (pandas, polars, PyArrow) and tables with nested columns as flat Arrow tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Any

import pyarrow as pa

from lineal.core.lazy_frames import refuse_lazy
from lineal.data.tables.cells import BatchPlace
from lineal.errors import DataError

#: What messages call a table in memory.
SOURCE = "the table"

#: Columns that are too long for one array are cut into batches of at most so many rows.
BATCH_ROWS = 1 << 20


def is_table(X: Any) -> bool:
    """Whether X is a table with named columns, of a kind that `arrow_table` knows."""
    import narwhals

    return isinstance(narwhals.from_native(X, eager_only=True, pass_through=True), narwhals.DataFrame)


def arrow_table(frame: Any, columns: Sequence[str] | None = None) -> Any:
    """A table in memory as an Arrow table, without copies where both have the same layout; only these columns of it."""
    table, names = _opened(frame)
    found = {}
    for name in names if columns is None else columns:
        found[name] = _column(table[name], name)
    return pa.table(found)


def one_cell(frame: Any, name: str) -> Any:
    """A column of a table with one row as an Arrow array."""
    return arrow_table(frame, [name]).column(0).combine_chunks()


def names_of(frame: Any) -> list[str]:
    """The names of the columns of a table in memory."""
    return _opened(frame)[1]


def without(frame: Any, names: Set[str]) -> Any:
    """A table in memory without these columns."""
    table, present = _opened(frame)
    return table.drop([name for name in present if name in names]).to_native()


def _opened(frame: Any) -> tuple[Any, list[str]]:
    """A table in memory as narwhals has it, and the names of its columns, which are texts that all differ."""
    import narwhals

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError:
        refuse_lazy(frame)
        raise DataError(f"expected a table of pandas, polars or PyArrow, found {type(frame).__name__}") from None
    except narwhals.exceptions.DuplicateError as error:
        twice = ", ".join(re.findall(r"^- (.*) \d+ times$", str(error), re.MULTILINE))
        raise DataError(f"the table has several columns of one name: {twice}; rename or drop one of them") from None
    names = list(table.columns)
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"the table has a column called {name!r}, which is not a text: rename it")
    return table, names


def column_of(values: list[Any], name: str) -> Any:
    """Values as an Arrow column; an error names the column and its types if they are several."""
    try:
        return pa.array(values, from_pandas=True)  # NaN is a missing cell
    except UnicodeEncodeError as error:
        raise DataError(f"column {name!r} of the table has a text that is not valid Unicode: {error.reason}") from None
    except (pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError) as error:  # also of types of pandas
        raise _cannot_use(values, name, error) from None


def _column(values: Any, name: str) -> Any:
    try:
        return _of_pandas(values) if values.implementation.is_pandas() else values.to_arrow()
    except UnicodeEncodeError as error:
        raise DataError(f"column {name!r} of the table has a text that is not valid Unicode: {error.reason}") from None
    except (pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError) as error:  # also of types of pandas
        raise _cannot_use(values.to_list(), name, error) from None


def _of_pandas(values: Any) -> Any:
    """A column of pandas as an Arrow column: sparse ones with all of their cells, intervals as the texts of them."""
    import pandas

    native = values.to_native()
    kind = native.dtype
    if isinstance(kind, pandas.SparseDtype):
        return pa.array(native.sparse.to_dense(), from_pandas=True)
    is_interval = isinstance(kind, pandas.IntervalDtype) or (
        isinstance(kind, pandas.CategoricalDtype) and isinstance(kind.categories.dtype, pandas.IntervalDtype)
    )
    if is_interval:
        categories = native.astype("category")
        return pa.array(categories.cat.rename_categories(categories.cat.categories.astype(str)))
    return values.to_arrow()


def _cannot_use(values: list[Any], name: str, error: Exception) -> DataError:
    """The error for a column that has no single type."""
    kinds: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is not None and value == value:
            kinds.setdefault(type(value).__name__, row)
    if len(kinds) > 1:
        shown = ", ".join(f"{kind} (row {row})" for kind, row in list(kinds.items())[:3])
        return DataError(f"column {name!r} of the table mixes types: {shown}; give all its values one type")
    return DataError(f"column {name!r} of the table cannot be used: {str(error).splitlines()[0]}")


def batches_of(table: Any) -> Iterator[tuple[Any, BatchPlace]]:
    """The rows of an Arrow table as record batches with their places: one empty batch if there are none."""
    row = 0
    for batch in _batches(flattened(table), BATCH_ROWS):
        yield batch, BatchPlace(SOURCE, row)
        row += len(batch)


def flattened(table: Any, has_empty: bool = False) -> Any:
    """The same table with one column per field of each column of objects: field b of column a is "a.b".

    Objects without fields have no column; with `has_empty`, one of missing cells.
    """
    while any(pa.types.is_struct(kind) for kind in table.schema.types):
        for at, column in enumerate(table.schema if has_empty else ()):
            if pa.types.is_struct(column.type) and not column.type.num_fields:
                table = table.set_column(at, column.name, pa.nulls(table.num_rows))
        table = table.flatten()
    return table


def flat_batch(batch: Any, has_empty: bool = False) -> Any:
    """A record batch with one column per field of each column of objects."""
    if not any(pa.types.is_struct(kind) for kind in batch.schema.types):
        return batch
    return _batches(flattened(pa.Table.from_batches([batch]), has_empty), None)[0]


def fields_of_nulls(table: Any, names: Sequence[str]) -> list[str]:
    """Those of the names that are no columns of a flat table, but fields of objects that are missing in all rows."""
    present = set(table.schema.names)

    def is_null(name: str) -> bool:
        return name in present and table.column(name).null_count == table.num_rows

    return [name for name in names if name not in present and any(map(is_null, roots_of([name])))]


def nulls_of(fields: Any, within: str = "") -> set[str]:
    """The names of the columns, and of fields of objects, that have no type because all their cells are missing."""
    found: set[str] = set()
    for field in fields:
        if pa.types.is_null(field.type):
            found.add(within + field.name)
        elif pa.types.is_struct(field.type):
            found |= nulls_of(field.type, f"{within}{field.name}.")
    return found


def _batches(table: Any, rows: int | None) -> list[Any]:
    """The record batches of a table, of at most so many rows; an empty one if it has no rows."""
    found = table.combine_chunks().to_batches(max_chunksize=rows)
    return found or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def roots_of(names: Sequence[str]) -> set[str]:
    """The names, and the columns of objects that they may be fields of."""
    return {".".join(parts[: i + 1]) for parts in (name.split(".") for name in names) for i in range(len(parts))}


def like(frame: Any, values: Any, name: str, names: list[str]) -> Any:
    """Values of the rows of a table, as its library has them: a series, or a table whose columns have these names."""
    import narwhals

    table = narwhals.from_native(frame, eager_only=True)
    backend = narwhals.get_native_namespace(table)
    if values.ndim == 1:
        found: Any = narwhals.new_series(name, values.tolist(), backend=backend)
    else:
        found = narwhals.from_dict({name: values[:, j].tolist() for j, name in enumerate(names)}, backend=backend)
    return (
        narwhals.maybe_reset_index(found).to_native()
        if not table.implementation.is_pandas()
        else _indexed(found.to_native(), table.to_native())
    )


def _indexed(found: Any, table: Any) -> Any:
    found.index = table.index
    return found
