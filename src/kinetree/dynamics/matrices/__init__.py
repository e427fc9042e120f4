"""The mass matrix: dense, packed on ancestor pairs, and factorized."""
