"""Search of messages: by words, by meaning, and by literal text."""
