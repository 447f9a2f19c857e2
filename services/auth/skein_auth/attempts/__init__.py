"""Limits on failed attempts and on calls without a credential, counted for all replicas together."""
