"""Rigid loops: the rows that they hold, and dynamics and configurations that obey them."""
