"""The synthetic organization and tenants of the canary."""
