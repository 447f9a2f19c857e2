"""The command's access to a cluster: clients, API keys, and the tenants that it creates."""
