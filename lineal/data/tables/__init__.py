"""The reader of tables with named columns. Every format becomes pyarrow record batches, which `encode` turns into X.

`survey` decides on the training file how columns are encoded. May import what `lineal.data` may. To add a table format,
add a function that yields its record batches, call it in `reader`, and add a row to `lineal.data.formats.FORMATS`.
"""
