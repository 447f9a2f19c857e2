"""Salted digests of purged names, by which nothing takes their place."""
