"""Who calls and what it may call: identity tokens, bearer tokens, permissions."""
