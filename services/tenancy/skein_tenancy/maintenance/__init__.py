"""RPCs that other services call about tenants and accounts, and periodic work of the worker."""
