"""Backups of the database: create, list, verify, and restore to a point in time without purged data."""
