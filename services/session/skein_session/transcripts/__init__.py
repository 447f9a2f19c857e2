"""Reads of what was said: pages of a session, messages of an agent, and the recent window."""
