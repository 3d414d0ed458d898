"""The algorithms of Blondel, Seki & Uehara (2013) as they published them, to compare with."""
