"""Deletion of tenants and organizations: the grace period, the purge of all rows, and its report."""
