"""Quotas and usage of tenants and organizations."""
