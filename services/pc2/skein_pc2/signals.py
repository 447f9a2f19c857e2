"""The signals of a recall, as these ports weigh them: one alone, when a search is by words or by meaning."""

from __future__ import annotations

_SIGNALS = ("dense", "context", "lexical", "reply", "statement", "length", "time", "date")


def alone(signal: str) -> dict[str, float]:
    """Return weights that leave one signal."""
    return {name: float(name == signal) for name in _SIGNALS}


WORDS, MEANING = alone("lexical"), alone("dense")
