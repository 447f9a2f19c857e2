"""The access log: its events, and their writing in batches."""
