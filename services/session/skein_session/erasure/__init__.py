"""Purges of sessions, messages and persons, with a receipt."""
