"""Paths, globs, URLs and ranged reads."""
