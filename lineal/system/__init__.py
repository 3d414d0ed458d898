"""What lineal asks of the operating system: whole files, temporary folders, memory; imports that wait for their first
use (`postponed`); and the base of option classes.

The lowest layer: it may import `errors` and the standard library only, so that help starts without NumPy. Add a file
per concern; whatever needs arrays belongs to `core` or above.
"""
