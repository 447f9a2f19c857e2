"""Agents, their drafts and changes. No gRPC, no SQL, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """A program that acts in a tenant."""

    agent_id: str
    display_name: str | None
    agent_type: str | None
    description: str | None
    system_prompt: str | None
    topic: str | None
    # JSON texts.
    metadata: str | None
    llm_config: str | None
    embedding_config: str | None
    tool_rules: str | None
    mcp_servers: Sequence[str]
    message_ids: Sequence[str]
    revision: int
    create_time: datetime
    update_time: datetime
    created_by: str
    updated_by: str
    # None: not deleted.
    delete_time: datetime | None
