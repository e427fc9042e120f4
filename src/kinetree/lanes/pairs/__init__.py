"""Functions of all pairs of rows: dense matrices, each entry written once."""
