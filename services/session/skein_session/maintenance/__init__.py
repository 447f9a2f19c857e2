"""Periodic work that the worker requests: partitions, expiry, idle sessions, and purges of tenants."""
