"""Ports 5574 and 6583: the Session Memory Agent."""
