"""Tools of a tenant, their JSON Schemas, and the agents that have them."""
