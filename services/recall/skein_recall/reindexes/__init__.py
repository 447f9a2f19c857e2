"""Reindexes: vectors of another model for all documents, and the switch of the active model that they prepare."""
