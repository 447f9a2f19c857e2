"""Purges of the index rows of deleted tenants."""
