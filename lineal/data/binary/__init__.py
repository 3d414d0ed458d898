"""The binary layout: Arrow files that hold the arrays of a `Dataset`, written once and opened without parsing.

`layout` describes and opens it, `file` finds the columns, `write` and `spool` make a file. May import what
`lineal.data` may. To add a column, extend `Collector.write`, `LayoutFile._find_columns` and the text of `layout`.
"""
