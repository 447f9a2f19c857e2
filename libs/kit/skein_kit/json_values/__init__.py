"""JSON that keeps its numbers as they were written, in texts and in messages."""
