"""Where sums over rows are taken: on this machine today, over files and clusters through the same interface."""
