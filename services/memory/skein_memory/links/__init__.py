"""Links between memories, and the rules they obey."""
