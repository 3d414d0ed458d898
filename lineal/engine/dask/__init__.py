"""Engine for rows on the workers of a Dask cluster: one share of work per worker and pass, and one sum.

Lives here: `source.py` and `engine.py` are what other layers use, `collections.py` and `files.py` make partitions,
`cluster.py` connects (`interrupts.py` is loaded by its workers); `rounds.py`, `plan.py`, `lineage.py`, `outbox.py` and
`waiting.py` are the client's side of a pass, `shares.py` and `holder.py` that of a worker, `calls.py` is between them.
`tasks.py` runs long tasks that need no engine.
May import: what `lineal.engine` may. Only the modules that need Dask import it, and nothing else in lineal does.
To add a kind of collection: make partitions of it in `collections.py`; each must be a pure function of its input.
"""
