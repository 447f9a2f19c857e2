"""Imports that meet something: each other, a message under the same id, a secret of what they replace."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from grpc import aio

from skein.memory.v1 import blocks_pb2, memory_pb2
from skein.memory.v1 import snapshots_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2

OVERWRITE = pb.IMPORT_MODE_OVERWRITE


async def imported(tenant: Tenant, *items: dict[str, Any], mode: Any = OVERWRITE) -> pb.ImportDataResponse:
    lines = "\n".join(json.dumps(item) for item in items)
    return await tenant.snapshots.ImportData(pb.ImportDataRequest(lines=lines, mode=mode))


async def at_once(tenant: Tenant, *items: dict[str, Any]) -> None:
    """Import the same several times at once: a late call may be told to try again, and nothing else."""
    outcomes = await asyncio.gather(*(imported(tenant, *items) for _ in range(6)), return_exceptions=True)
    codes = [one.code() for one in outcomes if isinstance(one, aio.AioRpcError)]
    assert set(codes) <= {grpc.StatusCode.ABORTED}
    assert len(codes) < len(outcomes)


@pytest.mark.system
async def test_imports_of_the_same_memories_at_once_store_them_once(tenant: Tenant) -> None:
    for n in range(3):
        await at_once(
            tenant,
            {"memory": {"content": "x", "external_id": f"x{n}"}},
            {"memory": {"type": "fact", "key": f"k{n}", "content": "x"}},
        )

    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert len(listed.memories) == 6


async def test_imports_of_the_same_blocks_at_once_store_them_once(tenant: Tenant) -> None:
    for n in range(3):
        blocks = ({"block": {"block_id": f"{kind}{n}", "label": "persona", "value": "x"}} for kind in "ab")
        await at_once(tenant, *({"block": block} for block in blocks))

    listed = await tenant.blocks.ListBlocks(blocks_pb2.ListBlocksRequest())
    assert [block.block_id for block in listed.blocks] == ["a0", "a1", "a2", "b0", "b1", "b2"]


async def test_imports_that_say_different_things_of_one_conflict_come_one_after_another(tenant: Tenant) -> None:
    ids = [
        (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory={"content": text}))).memory.memory_id
        for text in ("one", "other")
    ]
    pair = {"a_memory_id": ids[0], "b_memory_id": ids[1], "status": "CONFLICT_STATUS_DISMISSED"}
    for _ in range(3):
        outcomes = await asyncio.gather(
            *(imported(tenant, {"conflict": {**pair, "note": f"note {n}"}}) for n in range(6)), return_exceptions=True
        )
        codes = [one.code() for one in outcomes if isinstance(one, aio.AioRpcError)]
        assert set(codes) <= {grpc.StatusCode.ABORTED}
        assert len(codes) < len(outcomes)


async def test_a_memory_that_comes_under_the_id_of_a_message_gets_another_one(tenant: Tenant) -> None:
    session = session_pb2.Session(session_id="a")
    await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest(session=session))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="the heron stood in the reeds")
    appended = await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="a", messages=[message])
    )
    taken = appended.messages[0].message_id

    for outcome in ("created", "unchanged"):
        answer = await imported(tenant, {"memory": {"memory_id": taken, "content": "the stork stood on the roof"}})
        assert dict(getattr(answer.counts, outcome)) == {"memory": 1}

    memory = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=taken))).memory
    assert (memory.external_id, memory.memory_id != taken) == (taken, True)
    purge = memory_pb2.PurgeMemoriesRequest(selection=memory_pb2.MemorySelection(memory_ids=[taken]))
    await tenant.memory.PurgeMemories(purge)
    response = await tenant.recall.Recall(
        recall_pb2.RecallRequest(query="heron stork", kinds=[recall_pb2.ITEM_KIND_MESSAGE])
    )
    assert [hit.item_id for hit in response.hits] == [taken]


@pytest.mark.parametrize("mode", [OVERWRITE, pb.IMPORT_MODE_SKIP_EXISTING])
async def test_a_secret_goes_when_an_import_makes_something_else_of_its_memory(tenant: Tenant, mode: Any) -> None:
    vault = memory_pb2.Memory(type="knowledge_vault", title="wifi", secret_value="correct horse", external_id="w")
    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=vault))
    reveal = memory_pb2.RevealSecretRequest(memory_id=created.memory.memory_id)

    await imported(tenant, {"memory": {"external_id": "w", "content": "now a note"}}, mode=mode)

    if mode == OVERWRITE:
        with refused(grpc.StatusCode.NOT_FOUND, "SECRET_NOT_FOUND"):
            await tenant.memory.RevealSecret(reveal)
    else:
        assert (await tenant.memory.RevealSecret(reveal)).secret_value == "correct horse"
