"""What a person would rather look at than read. Plots need matplotlib: ``pip install 'lineal[report]'``."""

from lineal.report.history import plot_history, plot_progress
from lineal.report.path import plot_path, plot_sparsity

__all__ = ["plot_history", "plot_path", "plot_progress", "plot_sparsity"]
