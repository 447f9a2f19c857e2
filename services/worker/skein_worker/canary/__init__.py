"""The isolation canary: two synthetic tenants that search for each other's data through the gateway."""
