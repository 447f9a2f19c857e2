"""Reads of the access log."""
