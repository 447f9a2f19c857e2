"""Characters that a person does not see, and a model reads: shown by their numbers."""

from __future__ import annotations

import re

# Unicode's default ignorable and format characters, other controls than line ends and tabs, letters that are blank, and
# line separators. Beside soft hyphens and joiners these are bidirectional controls, tags and variation selectors.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# The parts of a page of HTML that are not shown as they are: tags with their attributes, and what a person may edit.
_MARKUP = re.compile(r"(<textarea\b.*?</textarea>|<[^>]*>)", re.DOTALL)


def has_invisible(text: str) -> bool:
    """Return whether a text has characters that a person does not see."""
    return _INVISIBLE.search(text) is not None


def show_invisible(text: str) -> str:
    """Return a text in which each invisible character stands as its number, such as [U+202E]."""
    return _INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def show_invisible_in_html(page: str) -> str:
    """Return a page of HTML whose shown texts have no invisible characters; attributes and edited texts keep theirs."""
    if not has_invisible(page):
        return page
    parts = _MARKUP.split(page)
    return "".join(part if place % 2 else show_invisible(part) for place, part in enumerate(parts))
