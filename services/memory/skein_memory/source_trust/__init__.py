"""Trust in the sources of memories."""
