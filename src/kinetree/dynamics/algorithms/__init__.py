"""The algorithms, one to a file, as passes (recursion.py): each equation stands here once."""
