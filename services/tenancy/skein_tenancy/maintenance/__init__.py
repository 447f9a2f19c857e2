"""Periodic deletion of expired rows, which the worker starts."""
