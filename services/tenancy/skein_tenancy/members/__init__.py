"""Members of a tenant: roles, ownership, and the accounts behind them."""
