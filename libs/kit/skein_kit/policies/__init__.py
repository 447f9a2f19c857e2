"""A tenant's policies, as the services that enforce them read them."""
