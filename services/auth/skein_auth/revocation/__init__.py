"""Revocation of all credentials of an account, a tenant or a client at once."""
