"""Words in memory, of the tenants that search most."""
