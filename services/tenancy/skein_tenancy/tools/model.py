"""Tools, their drafts and changes. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool that agents of a tenant may have."""

    tool_id: str
    name: str
    description: str
    # JSON text.
    json_schema: str | None
    source_type: str
    source_code: str
    tags: Sequence[str]
    # JSON text.
    metadata: str | None
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # None: not deleted.
    delete_time: datetime | None
