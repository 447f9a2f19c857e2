"""Quotas and usage of tenants and organizations, and rate limits."""
