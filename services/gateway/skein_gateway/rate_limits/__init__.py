"""Rate limits: token buckets leased from tenancy and spent locally."""
