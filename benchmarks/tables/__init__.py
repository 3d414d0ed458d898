"""Tables: from a CSV file to a model, and tables whose classes no hyperplane separates, beside other programs.

`mixed` and `curved` are the parts, `sets` has the files of the first. `*_script.py` are contestants in a process of
their own. To add one, add a script and its row in the part.
"""
