"""Walks: many lanes, each along its own stretch of one huge tree."""
