"""Attack: a member shows a text to readers whom it is not for, by a change, a merge, an approval or an import.
May be seen: READERS_WIDENED. A change may take readers away, and a merge may take in what is for more readers.
May be spent: the refused call; the memories stay as they were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import approvals_pb2, scores_pb2, snapshots_pb2
from skein.memory.v1 import memory_pb2 as pb

WIDENED = (grpc.StatusCode.FAILED_PRECONDITION, "READERS_WIDENED")
SECRET = "Alice takes insulin"
Fields = dict[str, Any]

FOR_ALL: Fields = {"scope": pb.SCOPE_GLOBAL}
FOR_ALICE: Fields = {"scope": pb.SCOPE_USER, "subject_id": "alice"}
FOR_KITCHEN: Fields = {"scope": pb.SCOPE_AGENT, "agent_id": "kitchen"}
FOR_SESSION: Fields = {"scope": pb.SCOPE_SESSION, "session_id": "s", "agent_id": "kitchen", "subject_id": "alice"}

# What a memory is for, and what would give it further readers.
WIDER: Sequence[tuple[Fields, Fields]] = [
    (FOR_ALICE, {"scope": pb.SCOPE_GLOBAL}),
    (FOR_ALICE, {"subject_id": "bob"}),
    (FOR_ALICE, {"scope": pb.SCOPE_AGENT, "agent_id": "kitchen"}),
    ({**FOR_ALICE, "agent_id": "kitchen"}, {"agent_id": ""}),
    (FOR_KITCHEN, {"scope": pb.SCOPE_GLOBAL}),
    (FOR_KITCHEN, {"agent_id": "garden"}),
    (FOR_SESSION, {"session_id": "t"}),
    (FOR_SESSION, {"scope": pb.SCOPE_USER}),
    (FOR_SESSION, {"agent_id": ""}),
    (FOR_SESSION, {"subject_id": "bob"}),
]
NARROWER: Sequence[tuple[Fields, Fields]] = [
    (FOR_ALL, FOR_ALICE),
    (FOR_ALL, {"subject_id": "alice"}),
    ({**FOR_ALL, "subject_id": "alice"}, {"subject_id": ""}),
    (FOR_ALICE, {"agent_id": "kitchen"}),
    (FOR_ALICE, {"scope": pb.SCOPE_SESSION, "session_id": "s"}),
    (FOR_KITCHEN, {**FOR_ALICE, "agent_id": "kitchen"}),
]


async def merge(tenant: Tenant, *memory_ids: str) -> pb.Memory:
    request = scores_pb2.MergeMemoriesRequest(memory_ids=memory_ids)
    return (await tenant.memory.MergeMemories(request)).memory


@pytest.mark.parametrize(("before", "change"), WIDER)
async def test_a_change_gives_no_further_readers(tenant: Tenant, before: Fields, change: Fields) -> None:
    memory = await tenant.create_memory(SECRET, **before)

    with refused(*WIDENED):
        await tenant.update_memory(memory.memory_id, **change)

    assert await tenant.get_memory(memory.memory_id) == memory


@pytest.mark.parametrize(("before", "change"), NARROWER)
async def test_a_change_may_take_readers_away(tenant: Tenant, before: Fields, change: Fields) -> None:
    memory_id = await tenant.remember(SECRET, **before)

    after = await tenant.update_memory(memory_id, **change)

    assert {name: getattr(after, name) for name in change} == change


@pytest.mark.parametrize(
    ("into", "taken"),
    [
        (FOR_ALL, FOR_ALICE),
        (FOR_ALL, FOR_KITCHEN),
        (FOR_ALL, FOR_SESSION),
        ({**FOR_ALICE, "subject_id": "bob"}, FOR_ALICE),
        ({**FOR_KITCHEN, "agent_id": "garden"}, FOR_KITCHEN),
        # All read both, but the Forget of Alice would not find the memory.
        (FOR_ALL, {**FOR_ALL, "subject_id": "alice"}),
        ({**FOR_ALL, "subject_id": "bob"}, {**FOR_ALL, "subject_id": "alice"}),
    ],
)
async def test_a_merge_shows_no_text_to_others(tenant: Tenant, into: Fields, taken: Fields) -> None:
    kept = await tenant.create_memory("The office opens at nine", **into)
    private = await tenant.create_memory(SECRET, **taken)

    with refused(*WIDENED):
        await merge(tenant, kept.memory_id, private.memory_id)

    assert await tenant.get_memory(kept.memory_id) == kept
    assert await tenant.get_memory(private.memory_id) == private


async def test_a_merge_may_take_in_what_more_people_may_read(tenant: Tenant) -> None:
    private, shared = await tenant.remember(SECRET, **FOR_ALICE), await tenant.remember("The office opens at nine")

    merged = await merge(tenant, private, shared)

    assert (merged.scope, merged.subject_id) == (pb.SCOPE_USER, "alice")


async def test_an_approved_change_gives_no_further_readers(tenant: Tenant, cluster: Cluster) -> None:
    await tenant.set_policy(approval="agents")
    memory = await tenant.create_memory(SECRET, **FOR_ALICE)
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="agent", agent_id="kitchen"))
    changed = pb.Memory(memory_id=memory.memory_id, scope=pb.SCOPE_GLOBAL)
    request = pb.UpdateMemoryRequest(memory=changed, update_mask={"paths": ["scope"]})
    waiting = await cluster.with_key(key.secret).memory.UpdateMemory(request)

    with refused(*WIDENED):
        await tenant.curation.ApproveMemory(approvals_pb2.ApproveMemoryRequest(pending_id=waiting.pending_id))

    assert await tenant.get_memory(memory.memory_id) == memory


async def test_an_import_gives_no_further_readers(tenant: Tenant) -> None:
    memory = await tenant.create_memory(SECRET, **FOR_ALICE)
    line = json.dumps({"memory": {"memory_id": memory.memory_id, "content": SECRET}})

    result = await tenant.snapshots.ImportData(
        snapshots_pb2.ImportDataRequest(lines=line, mode=snapshots_pb2.IMPORT_MODE_OVERWRITE)
    )

    assert [error.reason for error in result.errors] == ["READERS_WIDENED"]
    assert await tenant.get_memory(memory.memory_id) == memory
