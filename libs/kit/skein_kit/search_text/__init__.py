"""Rows of the search index that several services write or read: documents, postings, vectors."""
