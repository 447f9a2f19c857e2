"""Which facts of a message still say what it says. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

# The field of a fact's metadata that names the revision of its message.
REVISION = "message_revision"


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageState:
    """A message as it is now, and since when."""

    message_id: UUID
    change_time: datetime
    # 0: it is deleted.
    revision: int

    def makes_outdated(self, create_time: datetime, metadata: str | None) -> bool:
        """Return whether a fact was found in the message as it was before: by its create_time and its metadata.

        A worker may store a fact of an earlier revision after the change: it read the message before.
        """
        revision = _revision_of(metadata)
        return create_time < self.change_time or not self.revision or revision not in {None, self.revision}


def _revision_of(metadata: str | None) -> int | None:
    revision = json.loads(metadata or "{}").get(REVISION)
    return revision if isinstance(revision, int) else None
