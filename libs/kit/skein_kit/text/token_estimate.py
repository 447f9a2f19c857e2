"""How many tokens a text takes, as estimated: one estimate for everything that has a budget of them. Pure.

Tokens are estimated as tokenizers of English count on average: one for four characters, rounded up. Other languages,
code and numbers take up to twice as many: leave room.
"""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4
# What a text may take where the caller does not say.
DEFAULT_BUDGET = 2000


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
