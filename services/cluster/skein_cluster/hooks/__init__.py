"""Hooks of coding agents: their documented formats, their settings files, and what an event does in the cluster."""
