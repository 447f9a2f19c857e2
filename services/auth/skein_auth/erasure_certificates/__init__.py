"""Signed certificates of erasures, which remain after the tenant is deleted."""
