"""Which facts of a message still say what it says. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

# The field of a fact's metadata that names the revision of its message.
REVISION = "message_revision"
# That of a confirmed fact which names the message of the statement, and its revision.
STATEMENT = "statement"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageState:
    """A message as it is now, and since when."""

    message_id: UUID
    change_time: datetime
    # 0: it is deleted.
    revision: int

    def makes_outdated(self, create_time: datetime, metadata: str | None) -> bool:
        """Return whether a fact was found in the message as it was before: by its create_time and its metadata.

        A worker may store a fact of an earlier revision after the change: it read the message before. A fact whose
        statement the message is was found when its confirmation was read, at whatever time: the revision decides.
        """
        marks = json.loads(metadata or "{}")
        statement = marks.get(STATEMENT)
        if isinstance(statement, dict) and statement.get("message_id") == str(self.message_id):
            return not self.revision or statement.get("revision") != self.revision
        revision = marks.get(REVISION)
        is_other = isinstance(revision, int) and revision != self.revision
        return create_time < self.change_time or not self.revision or is_other
