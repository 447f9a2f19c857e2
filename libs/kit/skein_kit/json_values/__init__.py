"""JSON with exact numbers, in texts and in messages."""
