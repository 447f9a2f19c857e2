"""Rate limits of tenants and callers, of which gateways lease calls."""
