"""The registry of embedding models: which one is active, which ones are followed, and their reindexes."""
