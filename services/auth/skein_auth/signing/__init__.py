"""Signing keys, and the tokens that they sign: identity tokens, access tokens and ID tokens."""
