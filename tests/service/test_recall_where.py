"""Recall with a condition in words: what it finds passes it, and a filter that leaves nothing says so."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fix_cluster import Tenant
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2


async def seeded(tenant: Tenant) -> None:
    memories = []
    for n in range(30):
        plan = Struct()
        plan.update({"plan": "paid" if n == 29 else "trial"})
        memories.append(
            memory_pb2.Memory(
                content=f"the kettle number {n} is red",
                metadata=plan,
                importance=n / 30,
                tags=["even"] if n % 2 == 0 else ["odd"],
                valid_to_time=Timestamp(seconds=int(datetime(2020 + n % 2, 1, 1, tzinfo=UTC).timestamp())),
            )
        )
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="where is the red kettle?")
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
    )


def recall_request(**conditions: Any) -> pb.RecallRequest:
    filter_ = memory_pb2.MemoryFilter(**conditions)
    return pb.RecallRequest(query="red kettle", filter=filter_, limit=3, show_superseded=True)


async def test_hits_pass_the_condition_however_few_do(tenant: Tenant) -> None:
    await seeded(tenant)

    paid = await tenant.recall.Recall(recall_request(where="metadata.plan = paid"))
    odd = await tenant.recall.Recall(recall_request(where="tags:odd AND NOT metadata.plan = paid"))

    assert [hit.memory.content for hit in paid.hits] == ["the kettle number 29 is red"]
    assert len(odd.hits) == 3
    assert all(list(hit.memory.tags) == ["odd"] for hit in odd.hits)
    assert not paid.filter_emptied
    assert not paid.filter_truncated


@pytest.mark.system
async def test_importance_has_an_upper_end_and_the_world_a_clock(tenant: Tenant) -> None:
    await seeded(tenant)
    then = Timestamp(seconds=int(datetime(2020, 6, 1, tzinfo=UTC).timestamp()))

    unimportant = await tenant.recall.Recall(recall_request(max_importance=0.0))
    valid = await tenant.recall.Recall(recall_request(valid_at_time=then, where='tags:"even"'))

    assert [hit.memory.content for hit in unimportant.hits] == ["the kettle number 0 is red"]
    assert list(valid.hits) == []
    assert valid.filter_emptied


async def test_a_filter_that_leaves_nothing_is_named_and_a_query_that_finds_nothing_is_not(tenant: Tenant) -> None:
    await seeded(tenant)

    emptied = await tenant.recall.Recall(recall_request(where="key = nothing"))
    typed = await tenant.recall.Recall(recall_request(types=["fact"]))
    gateway = await tenant.gateway.Recall(
        gateway_pb2.RecallRequest(query="red kettle", filter=memory_pb2.MemoryFilter(where="key = nothing"))
    )

    assert (list(emptied.hits), emptied.filter_emptied) == ([], True)
    assert (list(typed.hits), typed.filter_emptied) == ([], True)
    assert all(branch.filter_emptied for branch in gateway.branches)


async def test_an_empty_memory_is_not_the_filter_s_doing(tenant: Tenant) -> None:
    assert not (await tenant.recall.Recall(recall_request(where="key = nothing"))).filter_emptied


@pytest.mark.parametrize(
    "conditions",
    [
        {"where": "has(type)"},
        {"where": "importance >= 0"},
        {"max_importance": 1.0},
        {"valid_at_time": Timestamp(seconds=1)},
        {"valid_at_time": Timestamp(seconds=1), "where": "NOT key = x"},
    ],
)
async def test_messages_pass_no_condition_on_memories(tenant: Tenant, conditions: dict[str, Any]) -> None:
    await seeded(tenant)
    request = recall_request(**conditions)
    request.kinds.append(pb.ITEM_KIND_MESSAGE)

    response = await tenant.recall.Recall(request)

    assert list(response.hits) == []
    assert response.filter_emptied
