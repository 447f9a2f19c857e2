"""Estimated tokens of a text, for every budget of tokens. Pure.

Tokens are estimated as tokenizers of English count on average: one for four characters, rounded up. Other languages,
code and numbers take up to twice as many: leave room.
"""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4
# Budget of a request without one, in tokens.
DEFAULT_BUDGET = 2000


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
