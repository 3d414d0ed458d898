"""From files and tables to a `Dataset`: readers for each format, and the memory-mapped binary layout."""
