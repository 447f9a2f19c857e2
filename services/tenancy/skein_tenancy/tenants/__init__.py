"""Tenants: their names and slugs, and which of them a caller may read or change."""
