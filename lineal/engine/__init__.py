"""Where sums over rows are taken: on this machine's threads today, over files and clusters through the same interface."""
