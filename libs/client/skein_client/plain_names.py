"""The one form in which services store names: ids, keys and tags. For code that makes an id of names itself."""

from __future__ import annotations

import re
import unicodedata

# As skein_kit.text.unicode_form has them; a test compares both.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_JOINED_LETTERS = "\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_UNSEEN = re.compile(f"[{_INVISIBLE}]|(?<![{_JOINED_LETTERS}])[\u200c\u200d]")
# Longer texts are no names: a service refuses them.
_MAX_CHARACTERS = 4096


def plain_name(text: str) -> str:
    """Return a name as a service stores it: NFKC, without invisible characters; as it is if nothing would be left."""
    if text.isascii() or len(text) > _MAX_CHARACTERS:
        return text
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return plain if plain.strip() else text
