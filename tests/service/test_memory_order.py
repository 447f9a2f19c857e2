"""The orders of a list of memories: each is kept page by page, and none reads what it does not show."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant, refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import PageTokenInvalid
from skein_memory.listing.order import Order, PageCursor

BEGIN = datetime(2021, 3, 1, tzinfo=UTC)


async def create(tenant: Tenant, content: str, *, days: int, **values: Any) -> str:
    memory = pb.Memory(content=content, **values)
    memory.create_time.FromDatetime(BEGIN + timedelta(days=days))
    return (await tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=memory))).memory.memory_id


async def fill(tenant: Tenant) -> None:
    """Seven memories, made in one order, changed in another, and of several importances."""
    ids = [
        await create(
            tenant,
            str(number),
            days=40 * number,
            importance=importance,
            confidence=1 - importance,
            tags=["odd"] if number % 2 else [],
        )
        for number, importance in enumerate((0.5, 0.9, 0.1, 0.5, 1.0, 0.0, 0.5))
    ]
    for number in (4, 0, 2, 6, 1, 5, 3):
        change = pb.Memory(memory_id=ids[number], title=f"t{number}")
        await tenant.memory.UpdateMemory(pb.UpdateMemoryRequest(memory=change, update_mask=FieldMask(paths=["title"])))


async def listed(tenant: Tenant, order_by: str, *, page_size: int = 2, **values: Any) -> list[str]:
    results: list[str] = []
    token = ""
    while True:
        request = pb.ListMemoriesRequest(order_by=order_by, page_size=page_size, page_token=token, **values)
        answer = await tenant.memory.ListMemories(request)
        assert len(answer.memories) <= page_size
        results += [memory.content for memory in answer.memories]
        token = answer.next_page_token
        if not token:
            return results


ORDERS = {
    "": "6543210",
    "create_time desc": "6543210",
    "create_time": "0123456",
    "update_time desc": "3516204",
    "update_time": "4026153",
    "importance desc": "4163025",
    "importance": "5203614",
    "confidence desc": "5263014",
    "confidence": "4103625",
    "  importance   desc ": "4163025",
}


@pytest.mark.system
@pytest.mark.parametrize(("order_by", "expected"), ORDERS.items())
async def test_a_list_comes_in_the_order_asked_for(tenant: Tenant, order_by: str, expected: Sequence[str]) -> None:
    await fill(tenant)

    # Equal importances come newest first.
    assert await listed(tenant, order_by) == list(expected)
    assert await listed(tenant, order_by, page_size=100) == list(expected)


@pytest.mark.system
@pytest.mark.parametrize("order_by", ["create_time", "update_time desc", "importance desc", "confidence"])
@pytest.mark.parametrize("conditions", [{"tags_any": ["odd"]}, {"where": 'content = "1" OR content = "5"'}])
async def test_an_order_keeps_to_the_filter(tenant: Tenant, order_by: str, conditions: Any) -> None:
    await fill(tenant)

    result = await listed(tenant, order_by, filter=pb.MemoryFilter(**conditions))

    expected = "135" if "tags_any" in conditions else "15"
    assert result == [name for name in ORDERS[order_by] if name in expected]


async def test_the_oldest_first_can_be_asked_by_id_and_between_times(tenant: Tenant) -> None:
    ids = [await create(tenant, str(number), days=number) for number in range(4)]
    where = f'memory_id IN ("{ids[2]}", "{ids[0]}", "{ids[3]}")'
    between = pb.MemoryFilter()
    between.start_time.FromDatetime(BEGIN + timedelta(days=1))
    between.end_time.FromDatetime(BEGIN + timedelta(days=3))

    assert await listed(tenant, "create_time", filter=pb.MemoryFilter(where=where)) == ["0", "2", "3"]
    assert await listed(tenant, "create_time", page_size=1, filter=between) == ["1", "2"]


@pytest.mark.parametrize("order_by", ["title", "create_time asc", "update_times", "importance; DROP TABLE x"])
async def test_an_order_that_there_is_none_of_is_refused_with_those_that_there_are(
    tenant: Tenant, order_by: str
) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ORDER_UNKNOWN") as caught:
        await tenant.memory.ListMemories(pb.ListMemoriesRequest(order_by=order_by))

    known = "create_time desc, create_time, update_time desc, update_time, importance desc, importance, "
    known += "confidence desc, confidence, access_count desc, access_count"
    assert f"order_by: must be one of {known}" in (caught.value.details() or "")


@pytest.mark.system
async def test_memories_as_of_a_time_come_in_the_order_of_creation_alone(tenant: Tenant) -> None:
    await fill(tenant)
    request = pb.ListMemoriesRequest(order_by="importance desc")
    request.as_of_time.GetCurrentTime()

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "ORDER_UNKNOWN"):
        await tenant.memory.ListMemories(request)
    request.order_by = "create_time"
    answer = await tenant.memory.ListMemories(request)

    assert [memory.content for memory in answer.memories] == list("0123456")


@pytest.mark.system
async def test_a_page_token_belongs_to_its_order(tenant: Tenant) -> None:
    await fill(tenant)
    first = await tenant.memory.ListMemories(pb.ListMemoriesRequest(order_by="importance desc", page_size=2))

    for order_by in ("", "create_time", "update_time desc"):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
            await tenant.memory.ListMemories(
                pb.ListMemoriesRequest(order_by=order_by, page_size=2, page_token=first.next_page_token)
            )


@pytest.mark.system
async def test_a_long_list_ends_pages_early_and_goes_on_where_it_ended(tenant: Tenant) -> None:
    for number in range(45):
        await create(tenant, f"{number:02d}" + "x" * 90_000, days=number, importance=number % 10 / 10)

    for order_by in ("create_time", "update_time desc", "importance desc", "confidence", "access_count"):
        result = await listed(tenant, order_by, page_size=1000)
        assert len(result) == len(set(result)) == 45


async def read(tenant: Tenant, content: str, memory_id: str, times: int) -> None:
    """Read a memory until so many reads are counted."""
    for _ in range(times):
        await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))
    while True:
        memories = (await tenant.memory.ListMemories(pb.ListMemoriesRequest())).memories
        if next(memory for memory in memories if memory.content == content).access_count == times:
            return
        await asyncio.sleep(0.02)


@pytest.mark.system
@pytest.mark.parametrize("page_size", [1, 2, 100])
async def test_a_list_comes_in_the_order_of_its_reads(tenant: Tenant, page_size: int) -> None:
    ids = {str(number): await create(tenant, str(number), days=number, tags=["all"]) for number in range(6)}
    for content, times in (("1", 2), ("4", 5), ("5", 2)):
        await read(tenant, content, ids[content], times)

    # Memories that were never read come last, and first where the order ascends.
    assert "".join(await listed(tenant, "access_count desc", page_size=page_size)) == "451320"
    assert "".join(await listed(tenant, "access_count", page_size=page_size)) == "023154"
    filtered = pb.MemoryFilter(where='content IN ("0", "1", "3", "4")')
    assert "".join(await listed(tenant, "access_count desc", page_size=page_size, filter=filtered)) == "4130"


@pytest.mark.parametrize("order_by", ["confidence desc", "access_count", "access_count desc"])
async def test_an_order_shows_archived_and_deleted_memories_where_they_are_asked_for(
    tenant: Tenant, order_by: str
) -> None:
    kept, archived, deleted = [await create(tenant, name, days=day) for day, name in enumerate("kad")]
    change = pb.Memory(memory_id=archived)
    change.archive_time.GetCurrentTime()
    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(memory=change, update_mask=FieldMask(paths=["archive_time"]))
    )
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=deleted))

    assert await listed(tenant, order_by) == ["k"]
    assert set(await listed(tenant, order_by, show_archived=True, show_deleted=True)) == set("kad")
    assert kept


@over(
    ("order_by", "place"),
    [
        *(("access_count", value) for value in ("-1", "1" * 30, "0.5", "x")),
        *(("confidence desc", value) for value in ("nan", "inf", "x")),
    ],
)
def test_a_place_with_a_value_that_no_memory_has_is_refused(order_by: str, place: str) -> None:
    with pytest.raises(PageTokenInvalid):
        PageCursor.of([str(uuid.uuid4()), place], Order.of(order_by, is_past=False))


@pytest.mark.parametrize(
    "order_by", ["", "create_time", "update_time desc", "update_time", "importance desc", "confidence"]
)
async def test_a_list_reads_no_month_before_the_oldest_memory(cluster: Cluster, tenant: Tenant, order_by: str) -> None:
    await create(tenant, "the oldest", days=0)
    async with cluster.superuser() as connection, connection.transaction():
        await connection.execute("SELECT memory.ensure_month('2016-05-01T00:00:00Z')")

    async with cluster.superuser() as connection, connection.transaction():
        # A statement that plans this month waits.
        await connection.execute("LOCK TABLE memory.memories_y2016m05 IN ACCESS EXCLUSIVE MODE")
        result = await listed(tenant, order_by, page_size=10)

    assert result == ["the oldest"]


@pytest.mark.parametrize("order_by", ["", "create_time", "update_time desc", "importance desc"])
async def test_a_memory_that_is_older_than_all_before_is_in_the_lists(tenant: Tenant, order_by: str) -> None:
    await create(tenant, "new", days=0)
    before = await listed(tenant, order_by, page_size=10)

    await create(tenant, "old", days=-1900)

    assert before == ["new"]
    assert sorted(await listed(tenant, order_by, page_size=10)) == ["new", "old"]
