"""Signed assertions (RFC 7523): JWTs by which clients authenticate, and identity assertions that grant tokens."""
