"""References of a compose file to variables, and how they resolve."""

from __future__ import annotations

import re
from collections.abc import Mapping

# A reference without another one inside, its name and its default.
_INNERMOST = re.compile(r"\$\{(\w+)(?::[?-]([^${}]*))?\}")


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Return a text with its variables in place: the inner ones first, as a default may hold one."""
    while (reference := _INNERMOST.search(text)) is not None:
        value = variables.get(reference[1]) or reference[2] or ""
        text = f"{text[: reference.start()]}{value}{text[reference.end() :]}"
    return text
