"""The strength of the penalty by data: warm-started paths of α, scored on folds that share the rows."""
