"""Organizations: groups of tenants with one owner."""
