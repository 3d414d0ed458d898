"""Plots of fits and searches, written to image files. They need matplotlib: ``pip install 'lineal[report]'``.

May import the families and everything below, but not `cli`. To add a plot, write a function that takes results and a
path (`history.canvas_of` and `history.draw` do the rest), and list it here.
"""

from lineal.report.history import plot_history, plot_progress
from lineal.report.path import plot_path, plot_sparsity

__all__ = ["plot_history", "plot_path", "plot_progress", "plot_sparsity"]
