"""Organizations, tenants, agents and the other slow-changing facts."""
