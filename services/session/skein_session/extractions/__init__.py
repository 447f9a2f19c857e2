"""Messages whose facts are due: queued by writes, leased by extractors."""
