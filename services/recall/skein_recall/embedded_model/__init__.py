"""The embedded embedding model: its graph, what draws it and what runs it."""
