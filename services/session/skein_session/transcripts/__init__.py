"""Reads of transcripts: pages of a session, messages of an agent or subject, and the recent window."""
