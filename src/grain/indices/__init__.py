"""Arithmetic on indices: permutations, selections, random generators by index."""
