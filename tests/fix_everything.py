"""A tenant with something of every kind that an export has, and exports to compare."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fix_calls import struct
from fix_cluster import Tenant
from google.protobuf.struct_pb2 import Value

from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, pages_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_importers.records import Kind

# What a service says of a row, which another cluster says anew.
OF_THE_ROW = {"revision", "record_time", "created_by", "updated_by", "writers", "character_count", "version"}


async def fill(tenant: Tenant) -> None:
    """Give a tenant something of every kind."""
    subject = subjects_pb2.Subject(subject_id="ann", display_name="Ann", profile=struct(city="Graz"))
    await tenant.tenancy.CreateSubject(subjects_pb2.CreateSubjectRequest(subject=subject))
    agent = tenancy_pb2.Agent(agent_id="juno", display_name="Juno")
    await tenant.tenancy.CreateAgent(tenancy_pb2.CreateAgentRequest(agent=agent))
    tool = subjects_pb2.Tool(tool_id="lamp", name="lamp", description="switches the lamp")
    await tenant.tenancy.CreateTool(subjects_pb2.CreateToolRequest(tool=tool))
    await tenant.tenancy.AttachTool(subjects_pb2.AttachToolRequest(agent_id="juno", tool_id="lamp"))
    block = blocks_pb2.Block(block_id="house", label="human", value="They live in Graz")
    await tenant.blocks.CreateBlock(blocks_pb2.CreateBlockRequest(block=block, agent_id="juno"))
    session = session_pb2.Session(session_id="s", subject_id="ann")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Where did I leave the keys?")]
    await tenant.sessions.AppendMessages(session_pb2.AppendMessagesRequest(session_id="s", messages=messages))
    corrected = session_pb2.Message(message_id=(await first_message(tenant)).message_id, content="Where are the keys?")
    mask = {"paths": ["content"]}
    await tenant.sessions.UpdateMessage(session_pb2.UpdateMessageRequest(message=corrected, update_mask=mask))
    for name in ("over", "away"):
        await tenant.sessions.CreateSession(
            session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id=name))
        )
        await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id=name, reason="done"))
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="away"))
    item = states_pb2.PutSessionItemRequest(session_id="s", key="mood", value=Value(string_value="calm"))
    await tenant.sessions.PutSessionItem(item)
    state = states_pb2.AgentState(agent_id="juno", state_data=struct(step=3))
    await tenant.sessions.PutAgentState(states_pb2.PutAgentStateRequest(state=state))
    contents = ("Ann prefers tea", "Ann likes tea", "The garden needs water", "The keys hang by the door")
    memories = [memory_pb2.Memory(content=text, external_id=f"m{n}", tags=["home"]) for n, text in enumerate(contents)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    brought = recall_pb2.PutEmbeddingRequest(external_id="m2", provider="sentence-transformers")
    brought.embeddings.add(values=[1.0] + [0.0] * 383)
    await tenant.recall.PutEmbedding(brought)
    link = memory_pb2.Link(from_memory_id="m0", to_memory_id="m1", relation="supports")
    await tenant.links.CreateLink(memory_pb2.CreateLinkRequest(link=link))
    await tenant.curation.SetSourceTrust(curation_pb2.SetSourceTrustRequest(source="radio", trust=0.25))
    alias = curation_pb2.ResolveEntityRequest(alias_memory_id="m1", canonical_memory_id="m0", confidence=0.75)
    await tenant.curation.ResolveEntity(alias)
    settled = curation_pb2.ResolveConflictRequest(
        a_memory_id="m0", b_memory_id="m2", status=curation_pb2.CONFLICT_STATUS_DISMISSED, note="no conflict"
    )
    await tenant.curation.ResolveConflict(settled)
    question = pages_pb2.Page(
        title="Tea",
        entity_memory_id="m0",
        filter={"types": ["note"]},
        sections=[{"title": "All", "types": ["note"]}],
        pinned=True,
    )
    for page in (question, pages_pb2.Page(subject_id="ann")):
        await tenant.curation.CreatePage(pages_pb2.CreatePageRequest(page=page))
    policy = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(decay_days=3))
    policy.update_mask.paths.append("decay_days")
    await tenant.tenancy.UpdatePolicy(policy)


async def first_message(tenant: Tenant) -> session_pb2.Message:
    return (await tenant.sessions.ListMessages(session_pb2.ListMessagesRequest(session_id="s"))).messages[0]


def record_lines(path: Path) -> list[str]:
    """Return the records of a file, in no order, without what a service says of each."""
    return normal_lines(map(json.loads, path.read_text("utf-8").splitlines()))


def normal_lines(records: Iterable[dict[str, Any]]) -> list[str]:
    """Return records as lines in no order, without what a service says of each."""
    lines = []
    for record in records:
        for name in OF_THE_ROW & record.get("item", {}).keys():
            del record["item"][name]
        # Rules are from the time on at which they were made here.
        for name in (OF_THE_ROW | {"update_time"}) & record.get("item", {}).get("policy", {}).keys():
            del record["item"]["policy"][name]
        # Shown by the ids of here.
        if record["record"] == Kind.CONFLICT:
            record["item"]["pair"] = sorted([record["item"].pop("a_memory_id"), record["item"].pop("b_memory_id")])
        if record["record"] == Kind.PAGE:
            del record["item"]["page_id"]
        if record["record"] == Kind.MESSAGE:
            del record["external_id"]
        lines.append(json.dumps(record, sort_keys=True))
    return sorted(lines)


def has(record: Any, former: Any) -> bool:
    """Return whether a record has all that it had, and maybe more."""
    if isinstance(former, dict):
        return isinstance(record, dict) and all(name in record and has(record[name], former[name]) for name in former)
    return bool(record == former)


def lost(export: Path, former: Path) -> list[str]:
    """Return the records of an earlier export that an export lacks."""
    records = [json.loads(line) for line in record_lines(export)]
    return [line for line in record_lines(former) if not any(has(record, json.loads(line)) for record in records)]
