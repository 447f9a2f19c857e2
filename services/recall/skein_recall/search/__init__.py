"""The search: a query, the candidates of all signals, their ranking, and the hits."""
