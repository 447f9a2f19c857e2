"""Who calls and from where: credentials exchanged for identities, trusted proxies, and the challenges that refused callers get."""
