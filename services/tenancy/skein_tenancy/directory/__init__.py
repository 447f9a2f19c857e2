"""What organizations and tenants have in common: display name, slug and metadata."""
