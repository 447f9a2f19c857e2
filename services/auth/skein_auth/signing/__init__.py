"""Signing keys and the tokens made with them: internal identities, access tokens and ID tokens."""
