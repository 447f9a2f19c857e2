"""Summaries of a session, by a chat model or by its own sentences."""
