"""Changes of a tenant's event log, published on ports 5598, 7240 and 5599."""
