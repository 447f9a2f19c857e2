"""The command's access to a cluster: stubs, API keys, and the organizations and tenants that it creates."""
