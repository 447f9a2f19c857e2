"""Import and export of a tenant's memory as items."""
