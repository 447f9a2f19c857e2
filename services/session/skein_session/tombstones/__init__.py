"""Tombstones: salted digests of purged names, which keep the names from being used again."""
