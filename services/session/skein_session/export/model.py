"""The position of an export of one subject.

An export reads space by space, and in each session by session, with all rows of each. Messages about the subject in
sessions of others follow, then the archived ones of those. Context ledgers, which lie in no space, come last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self, cast, get_args
from uuid import UUID

from asyncpg import Record

from skein_kit.errors import PageTokenInvalid
from skein_kit.ids import parse_id
from skein_session.page_tokens import MAX_SEQUENCE, parse_sequence

# "elsewhere" and "stored": messages and archived messages in sessions of others. Page tokens contain the stages.
Stage = Literal["sessions", "messages", "states", "items", "elsewhere", "stored", "ledgers"]


@dataclass(frozen=True, slots=True)
class ExportPosition:
    """The last exported row, and the stage that it belongs to."""

    stage: Stage = "sessions"
    session_id: str = ""
    # A sequence number, an agent id, an item key, a message id, or principal and name of a context ledger, whose agent
    # is in session_id; empty at the start of the stage.
    after: str = ""
    # In a tenant with spaces, the one that is read.
    space_id: UUID | None = None

    @classmethod
    def of(cls, token: Sequence[str] | None) -> Self:
        """Read the position in a page token. Raises PageTokenInvalid."""
        if token is None:
            return cls()
        try:
            stage, session_id, after, space_id = token
        except ValueError:
            raise PageTokenInvalid from None
        space = parse_id(space_id)
        if stage not in get_args(Stage) or (space_id and space is None):
            raise PageTokenInvalid
        return cls(cast("Stage", stage), session_id, after, space)

    def to_page_token(self) -> list[str]:
        """Return the parts of the page token."""
        return [self.stage, self.session_id, self.after, "" if self.space_id is None else str(self.space_id)]

    def after_archive(self, session_id: str) -> Self:
        """Return the position after all archived messages of a session."""
        return type(self)("stored", session_id, str(MAX_SEQUENCE))

    @classmethod
    def after_ledger(cls, row: Record) -> Self:
        """Return the position after a context ledger, by its columns."""
        return cls("ledgers", row["agent_id"], json.dumps([row["principal"], row["ledger_id"]]))

    @property
    def is_end_of_space(self) -> bool:
        """Whether all that lies in the space is exported."""
        return self.stage == "ledgers" and self.space_id is not None

    @property
    def is_in_ledgers(self) -> bool:
        """Whether all spaces are exported."""
        return self.stage == "ledgers" and self.space_id is None

    @property
    def ledger_key(self) -> tuple[str, str, str]:
        """Principal, agent and name of the last context ledger."""
        if not self.after:
            return "", "", ""
        try:
            principal, ledger_id = json.loads(self.after)
        except ValueError:
            raise PageTokenInvalid from None
        return principal, self.session_id, ledger_id

    @property
    def is_archive_done(self) -> bool:
        """Whether all archived messages of the session are exported."""
        return self.sequence == MAX_SEQUENCE

    @property
    def sequence(self) -> int:
        """The sequence number of the last message; 0 at the start."""
        return parse_sequence(self.after or "0")

    @property
    def message_id(self) -> UUID | None:
        """The id of the last message; None at the start."""
        if not self.after:
            return None
        if (message_id := parse_id(self.after)) is None:
            raise PageTokenInvalid
        return message_id
