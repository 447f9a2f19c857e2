"""What a text is like, told by its words alone: it ends with a question, it tells a time. Pure.

The search index keeps both with each item: an answer tends to follow a question, and who asks when something was wants
a text that tells a time.
"""

from __future__ import annotations

import re
from typing import Final

# The last mark that ends a sentence is a question mark, so what follows belongs to the question: a quote's end, a note.
_ASKS: Final = re.compile(r"[?？؟][^.!?。！？؟]*$")  # noqa: RUF001 - marks of other scripts are meant.

# English: in other languages only numbers tell a time. "May" is left out: the verb is far more frequent.
_TELLS_TIME: Final = re.compile(
    r"(?<!\w)(?:yesterday|today|tomorrow|tonight|last|next|ago|since|recently|weekend|days?|weeks?|months?|years?|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"january|february|march|april|june|july|august|september|october|november|december|"
    r"\d{4}|\d+(?:st|nd|rd|th))(?!\w)",
    re.IGNORECASE,
)
# Of a long text, the end tells whether it asks and the beginning whether it tells a time.
_READ: Final = 10_000


def ends_with_question(text: str) -> bool:
    """Say whether a text ends with a question."""
    return _ASKS.search(text[-_READ:]) is not None


def mentions_time(text: str) -> bool:
    """Say whether a text has an expression of time: a date, a weekday, "last week"."""
    return _TELLS_TIME.search(text[:_READ]) is not None
