"""Tools, their drafts and changes. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDraft:
    """The validated content of a tool to be created."""

    # Empty: the store generates one.
    tool_id: str
    # By column; JSON as text.
    values: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolChange:
    """New values for some columns of one tool."""

    tool_id: str
    # 0: any revision.
    revision: int
    # By column; JSON as text.
    values: Mapping[str, object]
