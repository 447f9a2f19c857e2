"""The standing canary: two synthetic tenants that look for each other's data through the public door."""
