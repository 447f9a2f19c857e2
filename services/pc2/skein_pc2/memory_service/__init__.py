"""Ports 7140 and 7240: the Memory Orchestrator Service."""
