"""Erased persons and sessions leave the caches of every process."""
