"""Facts about texts: estimated tokens, summaries."""
