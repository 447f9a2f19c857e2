"""What errors name: the fact that has a key, in any case of letters, the block that has a label, what is missing."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, metadata_in, refused

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2


async def fact(tenant: Tenant, key: str, **fields: Any) -> memory_pb2.Memory:
    memory = memory_pb2.Memory(type="fact", key=key, content=f"tea {key}", **fields)
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory


@pytest.mark.parametrize(
    "condition",
    [
        {"key": "phone"},
        {"key": "PHONE"},
        {"where": 'key = "phone"'},
        {"where": "key IN (pHone, fax)"},
        {"where": "key != fax"},
    ],
)
async def test_a_key_is_found_in_any_case(tenant: Tenant, condition: dict[str, Any]) -> None:
    await fact(tenant, "Phone")
    await fact(tenant, "Fax")
    filter_ = memory_pb2.MemoryFilter(**condition)

    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=filter_))
    found = await tenant.recall.Recall(recall_pb2.RecallRequest(query="tea", filter=filter_, min_relevance=0))

    expected = {"Phone", "Fax"} if "fax" in str(condition) and "IN" in str(condition) else {"Phone"}
    assert {memory.key for memory in listed.memories} == expected
    assert {hit.memory.key for hit in found.hits} == expected


async def test_a_key_that_changes_its_case_is_found_again(tenant: Tenant) -> None:
    stored = await fact(tenant, "Phone")
    change = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=stored.memory_id, key="Mobile"))
    change.update_mask.paths.append("key")

    await tenant.memory.UpdateMemory(change)

    for key, expected in (("mobile", 1), ("phone", 0)):
        filter_ = memory_pb2.MemoryFilter(key=key)
        listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(filter=filter_))
        assert len(listed.memories) == expected, key


async def test_a_taken_key_names_the_fact_that_has_it(tenant: Tenant) -> None:
    first = await fact(tenant, "Phone", subject_id="anna")
    other = await fact(tenant, "fax", subject_id="anna")
    change = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=other.memory_id, key="PHONE"))
    change.update_mask.paths.append("key")

    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN") as created:
        await fact(tenant, "phone", subject_id="anna")
    with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN") as updated:
        await tenant.memory.UpdateMemory(change)

    assert metadata_in(created)["memory_id"] == metadata_in(updated)["memory_id"] == first.memory_id


async def test_a_taken_label_names_the_block_that_has_it(tenant: Tenant) -> None:
    block = blocks_pb2.Block(label="persona", value="You are patient.")
    request = blocks_pb2.CreateBlockRequest(block=block, agent_id="butler")
    first = (await tenant.blocks.CreateBlock(request)).block

    with refused(grpc.StatusCode.ALREADY_EXISTS, "BLOCK_LABEL_TAKEN") as caught:
        await tenant.blocks.CreateBlock(request)

    assert metadata_in(caught)["block_id"] == first.block_id


async def test_what_is_missing_is_named(tenant: Tenant) -> None:
    missing = "01a226ca-ec81-7144-9d26-67ccf0000000"
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND") as read:
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=missing))
    change = memory_pb2.UpdateMemoryRequest(memory=memory_pb2.Memory(memory_id=missing, content="x"))
    change.update_mask.paths.append("content")
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND") as updated:
        await tenant.memory.UpdateMemory(change)
    with refused(grpc.StatusCode.NOT_FOUND, "BLOCK_NOT_FOUND") as block:
        await tenant.blocks.GetBlock(blocks_pb2.GetBlockRequest(block_id="of nobody"))
    with refused(grpc.StatusCode.NOT_FOUND, "MESSAGE_NOT_FOUND") as message:
        await tenant.sessions.GetMessage(session_pb2.GetMessageRequest(message_id=missing))

    assert metadata_in(read) == metadata_in(updated) == {"memory_id": missing}
    assert missing in str(read.value.details())
    assert metadata_in(block) == {"block_id": "of nobody"}
    assert metadata_in(message) == {"message_id": missing}
