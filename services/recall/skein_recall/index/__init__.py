"""The search index: vectors and term counts of documents, computed at once, from the queue, or by a reindex."""
