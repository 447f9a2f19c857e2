"""Snapshots of a tenant's memory: create, compare, restore, and delete."""
