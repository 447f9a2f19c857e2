"""Calls that the gateway refuses, on their way to the access log."""
