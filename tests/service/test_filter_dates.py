"""Dates in conditions: what a list, a search, an export and a purge take of a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fix_cluster import Tenant
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2

DAY = datetime(2026, 3, 5, tzinfo=UTC)
TIMES = {
    "tea before": DAY - timedelta(milliseconds=1),
    "tea first": DAY,
    "tea noon": DAY + timedelta(hours=12),
    "tea last": DAY + timedelta(days=1, milliseconds=-1),
    "tea after": DAY + timedelta(days=1),
}
OF_DAY = {"tea first", "tea noon", "tea last"}


def stamp(at: datetime) -> Timestamp:
    result = Timestamp()
    result.FromDatetime(at)
    return result


@pytest.fixture
async def days(tenant: Tenant) -> Tenant:
    """Memories and messages before, on and after a day."""
    await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(
            memories=[pb.Memory(content=name, create_time=stamp(at)) for name, at in TIMES.items()], keep_times=True
        )
    )
    await tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="s",
            create_session=True,
            keep_times=True,
            messages=[
                session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=name, create_time=stamp(at))
                for name, at in TIMES.items()
            ],
        )
    )
    return tenant


CASES = [
    ("create_time = 2026-03-05", OF_DAY),
    ("create_time <= 2026-03-05", OF_DAY | {"tea before"}),
    ("create_time > 2026-03-05", {"tea after"}),
    ("create_time < 2026-03-05", {"tea before"}),
    ("create_time >= 2026-03-05", OF_DAY | {"tea after"}),
    ("create_time != 2026-03-05", {"tea before", "tea after"}),
    ("create_time IN (2026-03-05)", OF_DAY),
]


@pytest.mark.parametrize(("where", "expected"), CASES)
async def test_a_date_is_its_whole_day_in_lists_and_searches(days: Tenant, where: str, expected: set[str]) -> None:
    filter_ = pb.MemoryFilter(where=where)

    listed = await days.memory.ListMemories(pb.ListMemoriesRequest(filter=filter_))
    found = await days.recall.Recall(
        recall_pb2.RecallRequest(query="tea", filter=filter_, min_relevance=0, limit=20, show_duplicates=True)
    )

    assert {memory.content for memory in listed.memories} == expected
    assert {hit.memory.content for hit in found.hits if hit.HasField("memory")} == expected
    assert {hit.message.content for hit in found.hits if hit.HasField("message")} == expected


@pytest.mark.system
async def test_a_purge_of_what_is_after_a_date_keeps_the_day(days: Tenant) -> None:
    selection = pb.MemorySelection(filter=pb.MemoryFilter(where="create_time > 2026-03-05"))

    exported = await days.memory.ExportMemories(pb.ExportMemoriesRequest(selection=selection))
    await days.memory.PurgeMemories(pb.PurgeMemoriesRequest(selection=selection))
    left = await days.memory.ListMemories(pb.ListMemoriesRequest())

    assert [entry.memory.content for entry in exported.memories] == ["tea after"]
    assert {memory.content for memory in left.memories} == OF_DAY | {"tea before"}


async def test_an_unset_property_equals_the_empty_text(tenant: Tenant) -> None:
    memories = [pb.Memory(content="tea with"), pb.Memory(content="tea without"), pb.Memory(content="tea empty")]
    memories[0].metadata.update({"x": "a"})
    memories[2].metadata.update({"x": ""})
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))

    unset = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=pb.MemoryFilter(where='metadata.x = ""')))
    others = await tenant.recall.Recall(
        recall_pb2.RecallRequest(query="tea", filter=pb.MemoryFilter(where='metadata.x != ""'), min_relevance=0)
    )

    assert {memory.content for memory in unset.memories} == {"tea without", "tea empty"}
    assert {hit.memory.content for hit in others.hits} == {"tea with"}
