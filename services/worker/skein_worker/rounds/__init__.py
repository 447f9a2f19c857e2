"""Jobs that visit tenants: embedding backlog, expiry, usage, reindexing, webhooks, and deletion of tenants."""
