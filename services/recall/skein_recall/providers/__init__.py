"""Providers of embeddings: the embedded model, or an endpoint that speaks OpenAI's protocol."""
