"""Retrieval quality of a running cluster, by questions with known evidence."""
