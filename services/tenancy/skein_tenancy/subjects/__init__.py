"""Subjects of a tenant, and the properties by which they are found."""
