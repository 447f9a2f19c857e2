"""Authentication: accounts, credentials, OAuth and identity tokens."""
