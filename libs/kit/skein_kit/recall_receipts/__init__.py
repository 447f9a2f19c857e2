"""Receipts of answers of Recall: what is signed, and their file."""
