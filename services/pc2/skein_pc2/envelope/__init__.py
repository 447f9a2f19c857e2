"""Ports 5570 and 5576: the Memory Orchestrator's envelope dialect."""
