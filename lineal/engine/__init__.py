"""Who holds the rows: the contract between solvers and rows (`base`), and its implementations, one file each.

May import `data`, `design`, `core` and `system`. To add an engine, write a class with the members of `base.Engine`,
let it keep row state with `state.StateCache`, and run `tests/engine` on it: what runs on one engine runs on all.
"""
