"""Remember: memories and messages stored under one request id."""
