"""Three-way merge of a form: what it was opened with, what is stored now, and what the person typed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skein_gateway.console.text_diff import MarkedText, mark_differences


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldDifference:
    """A field whose stored text differs from the text in the form."""

    label: str
    stored: MarkedText
    typed: MarkedText


def line_breaks(text: str) -> str:
    """Return a text with the line breaks that services store; browsers send CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def changed_fields(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of the fields that differ, in the order of `before`."""
    return [name for name, text in before.items() if line_breaks(text) != line_breaks(after[name])]


def merge(base: Mapping[str, str], stored: Mapping[str, str], typed: Mapping[str, str]) -> dict[str, str]:
    """Return the typed text of each field that the person changed, and the stored text of each other field."""
    changed = set(changed_fields(base, typed))
    return {name: typed[name] if name in changed else text for name, text in stored.items()}


def differences(
    stored: Mapping[str, str], typed: Mapping[str, str], labels: Mapping[str, str]
) -> Sequence[FieldDifference]:
    """Return the fields that differ, each with the words that differ."""
    results = []
    for name in changed_fields(stored, typed):
        stored_parts, typed_parts = mark_differences(line_breaks(stored[name]), line_breaks(typed[name]))
        results.append(FieldDifference(label=labels[name], stored=stored_parts, typed=typed_parts))
    return results
