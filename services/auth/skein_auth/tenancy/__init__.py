"""Calls to the tenancy service: tenants, memberships and invitations."""
