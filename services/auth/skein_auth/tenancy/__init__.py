"""What auth asks the tenancy service: tenant state, memberships and invitations."""
