"""The graph that links make: traversal, paths, spreading activation, and suggested links."""
