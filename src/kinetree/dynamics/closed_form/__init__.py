"""Derivatives of inverse and forward dynamics in closed form."""
