"""The exact solver: whether a better set of victims exists than the search found.

`problem` states what is to be decided, `program` makes an integer program of it, `highs` solves that, `exact` reads the
answer back, and `certifying` asks and compares. Without the `exact` extra nothing here is used.
"""
