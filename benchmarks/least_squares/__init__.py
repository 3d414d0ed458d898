"""Least squares for dense, ill-conditioned features: lineal and its peers in the experiments of a paper.

Agarwal, Kakade, Karampatziakis, Song & Valiant (2014), "Least squares revisited: scalable approaches for multi-class
prediction". One file a part: `settings` (what a
validation split chooses), `table1`, `figure1`, `figure2`, `mnist` (stagewise against a kernel machine), `softmax` (time
to an objective), `cifar` (Fig. 3), `spectra` (Fig. 4), `text` (Table 2), `conditioning` (Theorem 1). `problems` has the
data and the constants, `ours` runs lineal, `peers` runs the others, `comparison` has textbook solvers.
"""
