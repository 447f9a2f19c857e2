"""Conflicts: pairs of memories that cannot both be right, and their resolutions."""
