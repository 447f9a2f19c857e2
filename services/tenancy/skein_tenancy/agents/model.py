"""Agents on their way in. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.field_mask_pb2 import FieldMask

    from skein.tenancy.v1 import tenancy_pb2 as pb

_TEXTS = ("display_name", "agent_type", "description", "system_prompt", "topic")
_OBJECTS = ("metadata", "llm_config", "embedding_config", "tool_rules")
_LISTS = ("mcp_servers", "message_ids")
UPDATABLE = (*_TEXTS, *_OBJECTS, *_LISTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An agent on its way in."""

    # Empty: the service makes one.
    agent_id: str
    values: Mapping[str, object]

    @classmethod
    def of(cls, agent: pb.Agent) -> Draft:
        return cls(agent_id=agent.agent_id, values=_values(agent, UPDATABLE))


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """New values for some fields of one agent."""

    agent_id: str
    # 0: whatever it is now.
    revision: int
    values: Mapping[str, object]

    @classmethod
    def of(cls, agent: pb.Agent, mask: FieldMask) -> Change:
        """Read the fields that the mask names; all when it names none."""
        fields = well_known_types.updated_fields(mask, UPDATABLE)
        return cls(agent_id=agent.agent_id, revision=agent.revision, values=_values(agent, fields))


def _values(agent: pb.Agent, fields: Iterable[str]) -> dict[str, object]:
    """Return the fields by column: texts, JSON as text, None for what is unset, and lists of texts."""
    values: dict[str, object] = {}
    for field in fields:
        if field in _OBJECTS:
            values[field] = well_known_types.json_text(agent, field)
        elif field in _TEXTS:
            values[field] = getattr(agent, field)
        else:
            values[field] = list(getattr(agent, field))
    return values
