"""Agents of a tenant, and their purge."""
