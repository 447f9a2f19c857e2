"""A tenant leaves with everything that is its own, and is the same elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fix_calls import struct
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from google.protobuf.struct_pb2 import Value

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, curation_pb2, memory_pb2, pages_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_importers.records import ITEMS, Kind

pytestmark = pytest.mark.timeout(300)
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


async def test_a_whole_tenant_is_the_same_elsewhere(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    here = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    there = {**here, "SKEIN_API_KEY": other_tenant.api_key}
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    question = gateway_pb2.RecallRequest(query="Where are the keys?")

    out = await skein("export", "-o", str(first), environment=here)
    into = await skein("import", "jsonl", str(first), "--json", environment=there)
    again = await skein("export", "-o", str(second), environment=there)

    assert (out.code, into.code, again.code) == (0, 0, 0), out.err + into.err + again.err
    kinds = Counter(json.loads(line)["record"] for line in first.read_text("utf-8").splitlines())
    assert kinds.keys() == {*ITEMS, Kind.SESSION, Kind.MESSAGE, Kind.MEMORY, Kind.LINK}
    assert record_lines(second) == record_lines(first)
    assert (await first_message(other_tenant)).update_time == (await first_message(tenant)).update_time
    request = recall_pb2.BatchGetIndexStatesRequest(item_ids=["m2"], show_embeddings=True)
    (here_state,), (there_state,) = [
        (await each.recall.BatchGetIndexStates(request)).states for each in (tenant, other_tenant)
    ]
    (kept,) = there_state.vectors
    assert (kept.provider, kept.dimensions, kept.from_caller) == ("sentence-transformers", 384, True)
    assert kept.embeddings == here_state.vectors[0].embeddings
    mine, theirs = [(await each.gateway.Recall(question)).hits for each in (tenant, other_tenant)]
    assert [hit.memory.content for hit in mine] == [hit.memory.content for hit in theirs]


async def test_a_whole_tenant_is_the_same_elsewhere_through_the_interchange_format(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    exact = memory_pb2.Memory(content="Many", type="preference", data_json='{"n": 9007199254740993, "x": 1.10}')
    exact.metadata.update({"a": {"b": [1.5, None]}})
    exact.valid_to_time.FromJsonString("2090-01-01T00:00:00.123456Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=exact))
    types = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(memory_types=["note", "preference"]))
    types.update_mask.paths.append("memory_types")
    await tenant.tenancy.UpdatePolicy(types)
    here = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    there = {**here, "SKEIN_API_KEY": other_tenant.api_key}
    first, second = tmp_path / "first.mif.json", tmp_path / "second.mif.json"

    out = await skein("export", "--format", "mif", "-o", str(first), environment=here)
    dry = await skein("import", "mif", str(first), "--dry-run", "--json", environment=there)
    into = await skein("import", "mif", str(first), "--json", environment=there)
    repeated = await skein("import", "mif", str(first), "--json", environment=there)
    compared = await skein("import", "mif", str(first), "--compare", "--json", environment=there)
    again = await skein("export", "--format", "mif", "-o", str(second), environment=there)

    assert (compared.json["missing"], compared.json["different"]) == ({}, [])
    codes = [each.code for each in (out, dry, into, repeated, compared, again)]
    assert codes == [0] * 6, out.err + into.err + compared.err + again.err
    assert dry.json["read"] == into.json["read"] == into.json["written"]
    assert sum(repeated.json["written"].values()) == 0
    mine, theirs = [json.loads(path.read_text("utf-8")) for path in (first, second)]
    assert mine["memories"]
    assert sorted(mine["memories"], key=lambda memory: memory["id"]) == sorted(
        theirs["memories"], key=lambda memory: memory["id"]
    )
    mine_others, their_others = [document["vendor_extensions"]["skein"]["records"] for document in (mine, theirs)]
    assert {record["record"] for record in mine_others} == {*ITEMS, Kind.SESSION, Kind.MESSAGE, Kind.LINK}
    assert normal_lines(mine_others) == normal_lines(their_others)


async def test_an_export_equals_the_tenant_that_it_came_from(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    await fill(tenant)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="No other id")))
    path = tmp_path / "export.mif.json"
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    await skein("export", "--format", "mif", "-o", str(path), environment=environment)
    compared = await skein("import", "mif", str(path), "--compare", "--json", environment=environment)

    assert compared.code == 0, compared.err
    assert (compared.json["missing"], compared.json["different"]) == ({}, [])


async def test_the_interchange_format_has_memories_in_its_own_fields(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    path = tmp_path / "export.mif.json"
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    await skein("export", "--format", "mif", "-o", str(path), environment=environment)

    document = json.loads(path.read_text("utf-8"))
    assert (document["mif_version"], document["generator"]["name"]) == ("2.0", "skein")
    memories = {memory["external_id"]: memory for memory in document["memories"]}
    assert memories.keys() == {"m0", "m1", "m2", "m3"}
    tea = memories["m0"]
    assert str(UUID(tea["id"])) == tea["id"]
    assert (tea["content"], tea["memory_type"], tea["tags"]) == ("Ann prefers tea", "note", ["home"])
    assert tea["related_memory_ids"] == [memories["m1"]["id"]]
    assert datetime.fromisoformat(tea["created_at"]) <= datetime.fromisoformat(document["export_meta"]["created_at"])


async def test_the_memory_alone_has_its_own_format() -> None:
    done = await skein("export", "--memory-only", "--format", "mif", environment=test_environment())

    assert done.code == 2
    assert "omit --format" in done.err
