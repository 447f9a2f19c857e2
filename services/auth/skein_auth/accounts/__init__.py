"""Accounts of people: creation, self-service, passwords, one-time tokens and known devices."""
