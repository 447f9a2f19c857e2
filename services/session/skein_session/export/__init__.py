"""Export of all that concerns one person."""
