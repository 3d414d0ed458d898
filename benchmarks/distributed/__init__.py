"""lineal beyond one process and beyond memory: against Spark and dask-ml, over workers, and over a large file.

One file per part: `mapping` (do all minimise the same objective?), `rounds` (what a pass over the rows costs), `peers`
(seconds to the objective of Spark MLlib and dask-ml), `faults` (a worker process is killed in mid-fit), `scaling`
(rounds, bytes, partitions, workers), `file` (a file under a memory budget against the same rows in memory), `online`
(several online learners against one), `averages` (averaged models against one), `methods` (which one on two workers),
`model` (a cost model) and `apple` (adaptive products and bigrams on generated clicks, which `clicks` writes).
`problems` has the data and the problems, `process` runs a contestant in a process of its own and watches its memory,
`contestant` is what the scripts of the contestants share.
"""
