"""Messages of a session: append, read, correct, delete, and stream."""
