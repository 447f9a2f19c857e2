"""The search itself: from a query to the hits, by all signals, by words alone, or from a stored item."""
