"""Names of the ways to fit a stage, apart from the solver so that help texts need not import it."""

UPDATES = ("linear", "calibrated", "softmax")
