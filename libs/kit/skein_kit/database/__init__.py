"""Connections, transactions, named queries and migrations."""
