"""The form in which sources of memories are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from skein_kit.text.unicode_form import plain_form

# Trust of what no rated source is behind.
NEUTRAL_TRUST = 0.5
_MAX_CHARACTERS = 160


class _Row(Protocol):
    def __getitem__(self, name: str, /) -> Any: ...


def source_key(source: str | None) -> str:
    """Return the form in which sources are compared: plain, trimmed, lower case, single spaces, 160 characters."""
    return " ".join(plain_form(source or "").lower().split())[:_MAX_CHARACTERS].rstrip()


def source_keys(*names: str | None) -> list[str]:
    """Return the different keys of names, in their order."""
    return list(dict.fromkeys(key for name in names if (key := source_key(name))))


@dataclass(frozen=True, slots=True)
class MessageAuthors:
    """The source keys of those that a message is a statement of, which may be rated.

    The principals wrote the text: the one that stored the message, and the one that changed it last. The sender and the
    name are declared. An assistant's message is its agent's; that of another role only belongs to the agent.
    """

    principals: tuple[str, ...]
    keys: tuple[str, ...]

    @classmethod
    def of_row(cls, row: _Row) -> Self:
        """Read the authors of a row: created_by, updated_by, sender_id, name, role, agent_id."""
        principals = tuple(source_keys(row["created_by"], row["updated_by"]))
        agent = row["agent_id"] if row["role"] == "assistant" else None
        return cls(principals, tuple(dict.fromkeys((*principals, *source_keys(row["sender_id"], row["name"], agent)))))

    def trust(self, ratings: Mapping[str, float]) -> float:
        """Return the lowest rating of an author, at most the neutral one: one statement confirms nothing."""
        return min(
            (ratings[key] for key in self.keys if key in ratings and ratings[key] < NEUTRAL_TRUST),
            default=NEUTRAL_TRUST,
        )
