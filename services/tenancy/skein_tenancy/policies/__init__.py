"""The policy of a tenant: how it remembers, recalls, and keeps."""
