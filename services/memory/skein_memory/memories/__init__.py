"""Memories: their fields and rules, names, levels, properties, and the rows that hold them."""
