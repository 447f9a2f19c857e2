"""Invitations to join a tenant: tokens, mails, and acceptance."""
