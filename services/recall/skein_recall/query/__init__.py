"""A query: text, vector, cues, filter and weights; the ranking of candidates; the transaction that reads them."""
