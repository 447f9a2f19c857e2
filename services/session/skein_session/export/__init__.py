"""Export of all rows of one subject."""
