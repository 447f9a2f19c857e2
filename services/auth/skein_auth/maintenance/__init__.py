"""Deletion of expired rows, and the purge of a deleted tenant's rows."""
