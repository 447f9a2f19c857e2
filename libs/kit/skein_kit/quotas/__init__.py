"""A tenant's quotas: rows are counted as they come and go."""
