"""A query: its text, vector, cues, filter and weights, the ranking of candidates, and the transaction that reads them."""
