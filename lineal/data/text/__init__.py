"""Readers of line-oriented text, one file per format, whose kernels parse chunks of whole lines on several threads.

`lines`, `numbers` and `byte_words` are the parts of kernels, `assemble` runs a kernel over files, `reader` makes the
`Dataset`. May import what `lineal.data` may. To add a format, write its kernel and a `TextReader` as `svmlight` does.
"""
