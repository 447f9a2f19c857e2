"""Jobs of a tenant: pause, resume, limits, progress."""
