"""Context ledgers: what the prompts of callers have of BuildContext."""
