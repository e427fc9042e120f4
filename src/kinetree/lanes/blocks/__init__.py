"""Blocks of a huge tree, one after the other in the cache of a core."""
