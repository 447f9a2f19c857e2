"""Who calls and from where: credentials, trusted proxies, and the challenges that refused callers get."""
