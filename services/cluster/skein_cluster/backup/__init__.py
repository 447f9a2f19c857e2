"""Backups of the database: made, listed, verified, brought back to a moment, with what was purged kept purged."""
