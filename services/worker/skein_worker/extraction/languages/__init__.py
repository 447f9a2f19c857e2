"""Patterns and words of the rules: a file for each language, data alone."""
