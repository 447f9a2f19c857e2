"""API keys of tenants and of the operator, their check digits, and legacy bearer tokens."""
