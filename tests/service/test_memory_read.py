from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_calls import stamp
from fix_cluster import Tenant, refused
from fix_expiry import expire
from google.protobuf.timestamp_pb2 import Timestamp

from skein.memory.v1 import memory_pb2 as pb
from skein_memory.listing import store as listing_store


async def create(tenant: Tenant, *memories: dict[str, Any]) -> list[pb.Memory]:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(**{"content": "x", **fields}) for fields in memories])
    return list((await tenant.memory.BatchCreateMemories(request)).memories)


async def pages(tenant: Tenant, request: pb.ListMemoriesRequest) -> list[list[str]]:
    """Read a list to its end; return each page's contents."""
    result = []
    asked = pb.ListMemoriesRequest()
    asked.CopyFrom(request)
    while True:
        page = await tenant.memory.ListMemories(asked)
        result.append([memory.content for memory in page.memories])
        if not page.next_page_token:
            return result
        asked.page_token = page.next_page_token


async def passing(tenant: Tenant, **conditions: Any) -> set[str]:
    """Return the contents of what passes a filter, read in small pages."""
    request = pb.ListMemoriesRequest(page_size=2, filter=pb.MemoryFilter(**conditions))
    results = [content for page in await pages(tenant, request) for content in page]
    assert len(results) == len(set(results))
    return set(results)


async def test_a_memory_is_read_by_its_id_and_by_its_external_id(tenant: Tenant) -> None:
    lookalike = str(uuid.uuid4())
    (plain, named, alike) = await create(tenant, {}, {"external_id": "my id"}, {"external_id": lookalike})

    names = (plain.memory_id, named.memory_id, "my id", lookalike)

    # At once, because each read counts as a use a little later.
    read = await asyncio.gather(*(tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=name)) for name in names))

    assert [answer.memory for answer in read] == [plain, named, named, alike]


async def test_an_id_goes_before_an_external_id_that_looks_like_it(tenant: Tenant) -> None:
    (first,) = await create(tenant, {"content": "first"})
    await create(tenant, {"content": "second", "external_id": first.memory_id})

    read = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=first.memory_id))

    assert read.memory == first


@pytest.mark.parametrize(
    "name", ["0b5c2a2e-7d6f-4d0c-9a43-3f0a6f0d9c11", "no such", "01a1fc01-2863-7de6-a629-acfec7e060bc", "%", "'"]
)
async def test_a_name_that_nothing_answers_to_is_not_found(tenant: Tenant, name: str) -> None:
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=name))


async def test_a_name_that_cannot_be_stored_is_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "TEXT_NOT_STORABLE"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id="a\0"))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=""))


async def test_many_are_read_in_the_order_asked(tenant: Tenant) -> None:
    old = {"create_time": stamp(datetime(2018, 3, 1, tzinfo=UTC))}
    a, b, c = await create(tenant, {"external_id": "a"}, {"external_id": "b", **old}, {"external_id": "c"})
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id="c"))
    missing = str(uuid.uuid4())

    read = await tenant.memory.BatchGetMemories(
        pb.BatchGetMemoriesRequest(memory_ids=["b", missing, a.memory_id, "nothing", c.memory_id, b.memory_id, "a"])
    )

    assert list(read.memories) == [b, a, b, a]
    assert list(read.not_found_ids) == [missing, "nothing", c.memory_id]


async def test_lists_are_paged_newest_first(tenant: Tenant) -> None:
    await create(tenant, *({"content": str(n)} for n in range(7)))

    assert await pages(tenant, pb.ListMemoriesRequest(page_size=3)) == [["6", "5", "4"], ["3", "2", "1"], ["0"]]
    assert await pages(tenant, pb.ListMemoriesRequest(page_size=7)) == [[str(n) for n in range(6, -1, -1)]]
    assert await pages(tenant, pb.ListMemoriesRequest()) == [[str(n) for n in range(6, -1, -1)]]


@pytest.mark.system
async def test_a_list_reaches_through_all_times(tenant: Tenant) -> None:
    years = [1970, 1999, 2014, 2015, 2019, 2023, 2024, 2025]
    await create(
        tenant,
        {"content": "now"},
        *({"content": str(year), "create_time": stamp(datetime(year, 5, 1, tzinfo=UTC))} for year in years),
    )

    expected = ["now", *(str(year) for year in reversed(years))]
    for size in (1, 2, 3, 100):
        listed = await pages(tenant, pb.ListMemoriesRequest(page_size=size))
        assert [content for page in listed for content in page] == expected


@pytest.mark.system
async def test_memories_created_meanwhile_move_no_page(tenant: Tenant) -> None:
    await create(tenant, *({"content": str(n)} for n in range(4)))
    first = await tenant.memory.ListMemories(pb.ListMemoriesRequest(page_size=2))

    await create(tenant, {"content": "later"})
    second = await tenant.memory.ListMemories(pb.ListMemoriesRequest(page_size=2, page_token=first.next_page_token))

    assert [memory.content for memory in second.memories] == ["1", "0"]


async def test_an_empty_list_is_one_empty_page(tenant: Tenant) -> None:
    assert await pages(tenant, pb.ListMemoriesRequest()) == [[]]
    assert await pages(tenant, pb.ListMemoriesRequest(filter=pb.MemoryFilter(tags_all=["no"]))) == [[]]


@pytest.mark.system
async def test_a_page_of_long_memories_ends_before_it_is_too_large(tenant: Tenant) -> None:
    for _ in range(3):
        await create(tenant, *({"content": "x" * 100_000} for _ in range(20)))

    page = await tenant.memory.ListMemories(pb.ListMemoriesRequest(page_size=1000))

    assert page.ByteSize() < 4 * 1024 * 1024
    # Pages that end early for their size skip nothing, whether more rows follow within the page or beyond it.
    for size in (1000, 50):
        assert sum(len(read) for read in await pages(tenant, pb.ListMemoriesRequest(page_size=size))) == 60


FILTERED: Sequence[dict[str, Any]] = (
    {"content": "fact", "type": "fact", "key": "k", "tags": ["a", "b"], "importance": 0.9, "source": "mail"},
    {"content": "note", "tags": ["b", "c"], "agent_id": "ag", "scope": pb.SCOPE_AGENT},
    {"content": "task", "type": "task", "subject_id": "anna", "scope": pb.SCOPE_USER, "key": "k"},
    {"content": "talk", "type": "conversation", "session_id": "s", "scope": pb.SCOPE_SESSION, "tags": ["a"]},
    {"content": "plain", "importance": 0.1},
)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, {"fact", "note", "task", "talk", "plain"}),
        ({"types": ["fact"]}, {"fact"}),
        ({"types": ["fact", "task", "nonsense"]}, {"fact", "task"}),
        ({"tags_any": ["a"]}, {"fact", "talk"}),
        ({"tags_any": ["a", "c", "zzz"]}, {"fact", "note", "talk"}),
        ({"tags_all": ["a"]}, {"fact", "talk"}),
        ({"tags_all": ["a", "b"]}, {"fact"}),
        ({"tags_all": ["b", "b"]}, {"fact", "note"}),
        ({"tags_all": ["b"], "tags_any": ["a", "c"]}, {"fact", "note"}),
        ({"tags_all": ["b"], "tags_any": ["c"]}, {"note"}),
        ({"tags_all": ["a", "c"]}, set()),
        ({"tags_any": ["a"], "types": ["fact"]}, {"fact"}),
        ({"agent_id": "ag"}, {"note"}),
        ({"subject_id": "anna"}, {"task"}),
        ({"session_id": "s"}, {"talk"}),
        ({"session_id": "S"}, set()),
        ({"scopes": [pb.SCOPE_AGENT, pb.SCOPE_SESSION]}, {"note", "talk"}),
        ({"scopes": [pb.SCOPE_GLOBAL]}, {"fact", "plain"}),
        ({"source": "mail"}, {"fact"}),
        ({"min_importance": 0.5}, {"fact", "note", "task", "talk"}),
        ({"min_importance": 0.9}, {"fact"}),
        ({"key": "k"}, {"fact", "task"}),
        ({"key": "k", "types": ["task"], "subject_id": "anna", "scopes": [pb.SCOPE_USER]}, {"task"}),
    ],
)
async def test_every_condition_restricts_the_list(
    tenant: Tenant, conditions: dict[str, Any], expected: set[str]
) -> None:
    await create(tenant, *FILTERED)

    assert await passing(tenant, **conditions) == expected


async def test_a_list_is_restricted_to_a_time_to_the_microsecond(tenant: Tenant) -> None:
    at = datetime(2024, 1, 31, 23, 59, 59, 999500, tzinfo=UTC)
    microsecond = timedelta(microseconds=1)
    times = {"before": at - microsecond, "at": at, "after": at + microsecond, "later": at + timedelta(days=1)}
    await create(tenant, *({"content": name, "create_time": stamp(time)} for name, time in times.items()))

    assert await passing(tenant, start_time=stamp(at)) == {"at", "after", "later"}
    assert await passing(tenant, end_time=stamp(at)) == {"before"}
    assert await passing(tenant, start_time=stamp(at), end_time=stamp(at + microsecond)) == {"at"}
    assert await passing(tenant, start_time=stamp(at + timedelta(days=2))) == set()
    assert await passing(tenant, start_time=stamp(at), end_time=stamp(at)) == set()
    assert await passing(tenant, end_time=Timestamp(seconds=253402300799, nanos=999999999)) == set(times)


async def test_archived_memories_are_listed_when_asked_and_read_by_id_always(tenant: Tenant) -> None:
    archived, plain = await create(
        tenant, {"content": "archived", "archive_time": stamp(datetime(2026, 1, 1, tzinfo=UTC))}, {"content": "plain"}
    )

    assert await pages(tenant, pb.ListMemoriesRequest()) == [["plain"]]
    assert await pages(tenant, pb.ListMemoriesRequest(show_archived=True)) == [["plain", "archived"]]
    for memory in (archived, plain):
        read = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id))
        assert read.memory == memory


async def test_an_expired_memory_is_not_listed(tenant: Tenant) -> None:
    future = datetime.now(UTC) + timedelta(hours=1)
    await create(tenant, {"content": "lasting", "expire_time": stamp(future), "tags": ["t"]})
    await expire(tenant.snapshots, pb.Memory(content="expired", tags=["t"]))

    everything = pb.ListMemoriesRequest(show_archived=True, show_deleted=True)
    assert await pages(tenant, everything) == [["lasting"]]
    assert await passing(tenant, tags_any=["t"]) == {"lasting"}


@pytest.mark.system
async def test_many_readers_at_once_each_get_their_own(tenant: Tenant) -> None:
    memories = await create(tenant, *({"content": str(n)} for n in range(50)))

    read = await asyncio.gather(
        *(tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory.memory_id)) for memory in memories)
    )

    assert [response.memory for response in read] == memories


async def test_every_page_tells_how_many_pass_when_it_is_wished(tenant: Tenant) -> None:
    await create(tenant, *({"session_id": "ana"} for _ in range(5)), *({"session_id": "bob"} for _ in range(3)))
    request = pb.ListMemoriesRequest(
        page_size=2, filter=pb.MemoryFilter(session_id="ana"), show_total_size=True, order_by="update_time desc"
    )

    first = await tenant.memory.ListMemories(request)
    request.page_token = first.next_page_token
    second = await tenant.memory.ListMemories(request)
    whole = await tenant.memory.ListMemories(
        pb.ListMemoriesRequest(filter=pb.MemoryFilter(session_id="bob"), show_total_size=True)
    )
    silent = await tenant.memory.ListMemories(pb.ListMemoriesRequest(filter=pb.MemoryFilter(session_id="bob")))

    assert (first.total_size, second.total_size, whole.total_size) == (5, 5, 3)
    assert not silent.HasField("total_size")


async def test_a_total_that_takes_too_long_a_look_is_left_out(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_store, "MAX_ROWS_SCANNED", 4)
    await create(tenant, *({"session_id": "ana"} for _ in range(6)))
    request = pb.ListMemoriesRequest(page_size=2, filter=pb.MemoryFilter(session_id="ana"), show_total_size=True)

    answer = await tenant.memory.ListMemories(request)

    assert len(answer.memories) == 2
    assert not answer.HasField("total_size")
