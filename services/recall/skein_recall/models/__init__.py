"""The registry of embedding models: which one is active, and which ones are followed."""
