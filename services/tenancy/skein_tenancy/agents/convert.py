"""Agents as protobuf messages, and drafts and changes of requests."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.field_mask_pb2 import FieldMask

from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.rpc import well_known_types
from skein_tenancy.agents.model import Agent
from skein_tenancy.rows import RowChange, RowDraft

_TEXTS = ("display_name", "agent_type", "description", "system_prompt", "topic")
_OBJECTS = ("metadata", "llm_config", "embedding_config", "tool_rules")
_LISTS = ("mcp_servers", "message_ids")
_UPDATABLE = (*_TEXTS, *_OBJECTS, *_LISTS)
# Requests whose saved responses contain an agent.
METHODS_WITH_AGENT = [
    kind.DESCRIPTOR.full_name for kind in (pb.CreateAgentRequest, pb.UpdateAgentRequest, pb.UndeleteAgentRequest)
]


def agent(value: Agent) -> pb.Agent:
    return well_known_types.to_message(pb.Agent, value)


def agent_prefix(agent_id: str) -> bytes:
    """Return the bytes with which the agent begins inside a saved response."""
    return pb.Agent(agent_id=agent_id).SerializeToString()


def draft(message: pb.Agent) -> RowDraft:
    return RowDraft(row_id=message.agent_id, values=_values(message, _UPDATABLE))


def change(message: pb.Agent, mask: FieldMask) -> RowChange:
    """Read the fields that the mask names, or all when it is empty."""
    updated_names = well_known_types.updated_fields(mask, _UPDATABLE)
    return RowChange(row_id=message.agent_id, revision=message.revision, values=_values(message, updated_names))


def _values(message: pb.Agent, names: Iterable[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name in names:
        if name in _OBJECTS:
            values[name] = well_known_types.json_text(message, name)
        elif name in _TEXTS:
            values[name] = getattr(message, name)
        else:
            values[name] = list(getattr(message, name))
    return values
