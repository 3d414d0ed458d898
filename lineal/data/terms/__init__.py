"""Raw text to numbered terms: words, n-grams of words or characters, their vocabulary, counts and weights.

`documents` turns what users have into UTF-8 bytes and offsets. `learning` finds a vocabulary and the rows in one pass,
`applying` makes rows by a vocabulary or by hashing, chunk by chunk. Their kernels: `characters` knows Unicode,
`ascii_blocks` and `normalise` lower and split text, `hash_table` numbers terms, `counting`, `lookup` and `hashing` go
over documents, `vocabulary` and `text_order` merge and sort, `rows` sorts and weighs, `tables` looks up given terms.
May import what `lineal.data` may. To add a kind of term, add it to `analysis.Analysis`, and how it is cut from text to
`normalise`.
"""
