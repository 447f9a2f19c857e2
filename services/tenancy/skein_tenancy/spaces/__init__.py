"""Spaces of a tenant, and who sees them."""
