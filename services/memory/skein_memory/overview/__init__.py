"""Overviews of a tenant's memory: review queue, time clusters, and statistics."""
