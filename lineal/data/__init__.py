"""From files and tables to a `Dataset`: `read`, `read_blocks` and `stream`, the table of formats, arrays.

Readers by kind are in `text/` (svmlight, Vowpal Wabbit), `tables/` (CSV, JSON lines, Parquet, Arrow) and `binary/` (the
memory-mapped layout); `terms/` turns raw text into numbered terms. May import `core`, `system` and `errors`, and
nothing above. To add a format, write a module with `read` and `read_blocks` (the protocol `read.Reader`) and add its
row to `formats.FORMATS`.
"""
