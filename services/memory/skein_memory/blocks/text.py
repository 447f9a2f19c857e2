"""The text of blocks: append, replace, insert, fill templates, and render for a prompt. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from xml.sax.saxutils import quoteattr

from skein_kit.text.quoted_text import MARK, one_line, quote
from skein_memory.blocks.model import Block
from skein_memory.errors import BlockLineMissing, BlockTextNotUnique, BlockVariableMissing

_VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
# Tags that would end the block in a prompt, or begin another; a value may not contain them.
_FRAME = re.compile(r"<(?=\s*/?\s*block\b)", re.IGNORECASE)
# Labels that come first in a prompt; others follow by name.
_FIRST = {"system": 0, "persona": 1, "human": 2}


def append(value: str, text: str) -> str:
    """Add text at the end, on a line of its own."""
    return f"{value}\n{text}" if value else text


def replace(value: str, old: str, new: str) -> str:
    """Replace the one occurrence of a text. Raises BlockTextNotUnique; overlapping ones count each."""
    count = sum(1 for _ in re.finditer(f"(?={re.escape(old)})", value))
    if count != 1:
        raise BlockTextNotUnique(count=count)
    return value.replace(old, new)


def insert(value: str, text: str, line: int | None) -> str:
    """Insert text after a line: 0 before the first, None after the last. Raises BlockLineMissing."""
    lines = value.split("\n") if value else []
    if line is not None and line > len(lines):
        raise BlockLineMissing(lines=len(lines))
    index = len(lines) if line is None else line
    return "\n".join([*lines[:index], text, *lines[index:]])


def variables_of(value: str) -> list[str]:
    """Return the names of the variables in a template, each once, in order."""
    return list(dict.fromkeys(_VARIABLE.findall(value)))


def fill_template(value: str, variables: Mapping[str, str]) -> str:
    """Replace the variables of a template by values, which are not expanded again. Raises BlockVariableMissing."""
    missing = [name for name in variables_of(value) if name not in variables]
    if missing:
        raise BlockVariableMissing(variables=", ".join(missing))
    return _VARIABLE.sub(lambda match: variables[match.group(1)], value)


def prompt_order(label: str) -> tuple[int, str]:
    """Return the key that orders labels in a prompt."""
    return _FIRST.get(label, len(_FIRST)), label


def render(blocks: Iterable[Block], variables: Mapping[str, str]) -> str:
    """Return blocks as one text for a prompt, in their order there. Raises BlockVariableMissing."""
    parts = []
    for block in sorted(blocks, key=lambda block: prompt_order(block.draft.label)):
        draft = block.draft
        value = fill_template(draft.value, variables) if draft.is_template else draft.value
        attributes = [f"label={quoteattr(one_line(draft.label))}"]
        if draft.description:
            attributes.append(f"description={quoteattr(one_line(draft.description))}")
        attributes += [f'characters="{len(value)}"', f'limit="{draft.max_characters}"']
        if draft.read_only:
            attributes.append('read_only="true"')
        escaped = quote(_FRAME.sub("&lt;", value))
        parts.append(f"<block {' '.join(attributes)}>\n{MARK}{escaped}\n</block>")
    return "\n".join(parts)
