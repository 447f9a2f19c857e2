"""Where an export of one person goes on: session by session with all that is in it, then what is said elsewhere.

What is said elsewhere and lies in cold storage comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self, cast, get_args

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

Stage = Literal["sessions", "messages", "states", "items", "elsewhere", "stored"]
_MAX_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ExportPosition:
    """What was exported last: of a session its messages, states and items, or messages in sessions of others."""

    stage: Stage = "sessions"
    session_id: str = ""
    # A sequence number, an agent, a key or a message's id; empty at the stage's start.
    after: str = ""

    @classmethod
    def of(cls, token: Sequence[str] | None) -> Self:
        """Read the place that a page token names."""
        if token is None:
            return cls()
        try:
            stage, session_id, after = token
        except ValueError:
            raise PageTokenInvalid from None
        if stage not in get_args(Stage):
            raise PageTokenInvalid
        return cls(cast("Stage", stage), session_id, after)

    def token(self) -> list[str]:
        """Return what the page token must say."""
        return [self.stage, self.session_id, self.after]

    def through(self, session_id: str) -> Self:
        """Return the place behind all that a session has in cold storage."""
        return type(self)("stored", session_id, str(_MAX_SEQUENCE))

    @property
    def is_through(self) -> bool:
        """Whether nothing is left of the session that is named."""
        return self.sequence == _MAX_SEQUENCE

    @property
    def sequence(self) -> int:
        """The sequence number after which messages go on."""
        try:
            sequence = int(self.after or "0")
        except ValueError:
            raise PageTokenInvalid from None
        if not 0 <= sequence <= _MAX_SEQUENCE:
            raise PageTokenInvalid
        return sequence

    @property
    def message_id(self) -> UUID | None:
        """The message after which others go on; None at the start."""
        if not self.after:
            return None
        if (found := parse_id(self.after)) is None:
            raise PageTokenInvalid
        return found
