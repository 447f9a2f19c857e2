"""The search index: embeddings, postings and the ranking over both."""
