"""Tendons: their paths, lengths, and how they pull on joints."""
