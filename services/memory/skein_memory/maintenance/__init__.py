"""Periodic work that the worker service requests: partitions, expiry, decay, and purges of tenants."""
