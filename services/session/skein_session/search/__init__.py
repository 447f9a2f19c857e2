"""Search of messages: by terms, by meaning, and by literal text."""
