"""Accounts of people: their rules and rows, passwords, one-time tokens sent by mail, and what owners and the operator do with accounts."""
