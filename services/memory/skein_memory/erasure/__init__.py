"""Purges of memories and erasure of persons: rows, cold storage, access log, and the receipt."""
