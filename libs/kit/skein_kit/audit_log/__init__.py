"""Audit events that methods declare, recorded in the transactions of their changes."""
