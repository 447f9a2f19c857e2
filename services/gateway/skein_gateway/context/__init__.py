"""BuildContext: recall results and recent messages packed into a token budget, with citations."""
