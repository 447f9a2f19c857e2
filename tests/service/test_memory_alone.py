"""The memory service without its neighbours: recall is away, and the worker's calls come from a key of the test's."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import grpc
from fix_cluster import refused
from fix_memory import Alone

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_kit.ids import month_of, months_later, now

if TYPE_CHECKING:
    from collections.abc import Sequence


def request(content: str, request_id: str = "", **fields: Any) -> pb.CreateMemoryRequest:
    return pb.CreateMemoryRequest(memory=pb.Memory(content=content, **fields), request_id=request_id)


def update_of(memory_id: str, *paths: str, **fields: Any) -> pb.UpdateMemoryRequest:
    return pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, **fields), update_mask={"paths": paths})


def later(*, hours: int) -> datetime:
    return now() + timedelta(hours=hours)


async def expire(alone: Alone, memory_ids: Sequence[str]) -> None:
    """Let the time of memories run out."""
    async with alone.database.superuser() as connection:
        for table, column in (("memory.entries", "memory_id"), ("recall.documents", "item_id")):
            await connection.execute(
                f"UPDATE {table} SET expire_time = now() - interval '1 second' WHERE {column} = ANY ($1)",  # noqa: S608 - constants.
                [UUID(memory_id) for memory_id in memory_ids],
            )


async def indexed(alone: Alone) -> set[str]:
    return {str(row["item_id"]) for row in await alone.rows("SELECT item_id FROM recall.documents")}


async def test_without_recall_memories_are_stored_and_wait_for_their_vectors(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        batch = pb.BatchCreateMemoriesRequest(request_id="b", memories=[pb.Memory(content="a"), pb.Memory(content="b")])

        first = await memory.CreateMemory(request("the lighthouse", request_id="r"))
        again = await memory.CreateMemory(request("the lighthouse", request_id="r"))
        first_batch = await memory.BatchCreateMemories(batch)
        batch_again = await memory.BatchCreateMemories(batch)
        update = pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=first.memory.memory_id, content="sea"),
            update_mask={"paths": ["content"]},
            request_id="u",
        )
        changed = await memory.UpdateMemory(update)
        changed_again = await memory.UpdateMemory(update)

    assert first.embedding_pending
    assert changed.embedding_pending
    assert first_batch.pending_embedding_count == 2
    assert (again, batch_again, changed_again) == (first, first_batch, changed)
    documents = await alone.rows("SELECT pending, revision FROM recall.documents ORDER BY revision")
    assert [tuple(row) for row in documents] == [(True, 1), (True, 1), (True, 2)]


async def test_every_write_keeps_the_index_as_the_memory_is(alone: Alone) -> None:
    async def index() -> tuple[set[str], list[tuple[Any, ...]]]:
        terms = await alone.rows("SELECT term FROM recall.postings")
        documents = await alone.rows("SELECT type, source, revision FROM recall.documents")
        return {row["term"] for row in terms}, [tuple(row) for row in documents]

    async def update(paths: list[str], **fields: Any) -> None:
        changed = pb.Memory(memory_id="x", **fields)
        await memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask={"paths": paths}))

    async with alone.serving(), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        await memory.CreateMemory(request("the lighthouse", title="On cliffs", external_id="x", source="a"))
        assert await index() == ({"lighthous", "cliff"}, [("note", "a", 1)])
        await update(["tags", "level", "metadata"], tags=["t"])
        assert await index() == ({"lighthous", "cliff"}, [("note", "a", 1)])
        await update(["title", "source"])
        assert await index() == ({"lighthous"}, [("note", None, 3)])
        await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id="x"))
        assert await index() == (set(), [])
        await memory.RestoreMemory(pb.RestoreMemoryRequest(memory_id="x"))
        assert await index() == ({"lighthous"}, [("note", None, 5)])


async def test_a_refused_write_leaves_no_row_anywhere(alone: Alone) -> None:
    tables = ("entries", "tags", "external_ids", "fact_keys", "requests")
    async with alone.serving(), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        await memory.CreateMemory(request("a", type="fact", key="k"))
        before = [len(await alone.rows(f"SELECT FROM memory.{table}")) for table in tables]

        with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
            await memory.CreateMemory(request("b", request_id="r", type="fact", key="k", tags=["t"], external_id="x"))

    after = [len(await alone.rows(f"SELECT FROM memory.{table}")) for table in tables]
    assert after == before
    assert len(await alone.rows("SELECT FROM recall.documents")) == 1


async def test_the_operator_sets_the_longest_content(alone: Alone) -> None:
    async with alone.serving(SKEIN_MEMORY_MAX_CONTENT_CHARACTERS="5"), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)

        created = await memory.CreateMemory(request(" 12345 "))
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"):
            await memory.CreateMemory(request("123456"))

    assert created.memory.agent_id == "kitchen"


async def test_the_months_ahead_are_made_once(alone: Alone) -> None:
    async with alone.serving(), alone.channel(system=True, tenant=False) as channel:
        upkeep = rpc.UpkeepServiceStub(channel)

        first = await upkeep.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        again = await upkeep.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        default = await upkeep.EnsurePartitions(pb.EnsurePartitionsRequest())

    # The migration made this month and three more.
    assert (first.created_count, again.created_count, default.created_count) == (2, 0, 0)
    assert first.horizon_time.ToDatetime(UTC) == months_later(month_of(now()), 6)
    assert default.horizon_time.ToDatetime(UTC) == months_later(month_of(now()), 4)


async def test_answers_are_forgotten_after_a_day(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel, alone.channel(system=True) as system:
        memory, upkeep = rpc.MemoryServiceStub(channel), rpc.UpkeepServiceStub(system)
        await memory.CreateMemory(request("old", request_id="old"))
        await memory.CreateMemory(request("new", request_id="new"))
        async with alone.database.superuser() as connection:
            await connection.execute(
                "UPDATE memory.requests SET create_time = $1 WHERE request_id = 'old'",
                datetime.now(UTC) - timedelta(hours=25),
            )

        deleted = await upkeep.DeleteExpired(pb.DeleteExpiredRequest())
        await memory.CreateMemory(request("old", request_id="old"))
        await memory.CreateMemory(request("new", request_id="new"))

    assert deleted.deleted_count == 1
    assert len(await alone.rows("SELECT FROM memory.entries")) == 3


async def test_expired_memories_leave_the_index_and_stay_readable(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel, alone.channel(system=True) as system:
        memory, upkeep = rpc.MemoryServiceStub(channel), rpc.UpkeepServiceStub(system)
        kept = (await memory.CreateMemory(request("kept", expire_time=later(hours=1)))).memory
        batch = [pb.Memory(content=f"gone {number}", expire_time=later(hours=1)) for number in range(450)]
        gone = (await memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))).memories
        await expire(alone, [expired.memory_id for expired in gone])

        first = await upkeep.DeleteExpired(pb.DeleteExpiredRequest())
        again = await upkeep.DeleteExpired(pb.DeleteExpiredRequest())
        read = await memory.GetMemory(pb.GetMemoryRequest(memory_id=gone[0].memory_id))

    assert (first.deleted_count, again.deleted_count) == (450, 0)
    assert read.memory.content == "gone 0"
    assert await indexed(alone) == {kept.memory_id}
    assert {str(row["item_id"]) for row in await alone.rows("SELECT item_id FROM recall.postings")} == {kept.memory_id}


async def test_a_memory_that_expired_leaves_nothing_in_the_index_when_it_is_deleted_or_changed(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        ids = [(await memory.CreateMemory(request("x", expire_time=later(hours=1)))).memory.memory_id for _ in range(3)]
        await expire(alone, ids)

        await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=ids[0]))
        await memory.UpdateMemory(update_of(ids[1], "title", title="still over"))
        await memory.UpdateMemory(update_of(ids[2], "expire_time"))

    assert await indexed(alone) == {ids[2]}


async def test_one_that_gets_more_time_after_it_left_the_index_comes_back(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel, alone.channel(system=True) as system:
        memory = rpc.MemoryServiceStub(channel)
        expired = (await memory.CreateMemory(request("x", expire_time=later(hours=1)))).memory.memory_id
        await expire(alone, [expired])
        await rpc.UpkeepServiceStub(system).DeleteExpired(pb.DeleteExpiredRequest())

        answer = await memory.UpdateMemory(update_of(expired, "expire_time", expire_time=later(hours=1)))

    assert answer.embedding_pending
    assert await indexed(alone) == {expired}


async def test_what_only_filters_ask_for_changes_without_losing_vectors(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        stored = (await memory.CreateMemory(request("the lighthouse"))).memory
        async with alone.database.superuser() as connection:
            await connection.execute("UPDATE recall.documents SET pending = false")

        changed = {"importance": 0.25, "source": "mail", "type": "task", "agent_id": "a", "subject_id": "anna"}
        update = update_of(stored.memory_id, *changed, **changed)
        answer = await memory.UpdateMemory(update)
        (in_place,) = await alone.rows("SELECT * FROM recall.documents")
        await memory.UpdateMemory(update_of(stored.memory_id, "content", content="the windmill"))
        (anew,) = await alone.rows("SELECT * FROM recall.documents")

    assert not answer.embedding_pending
    assert {name: in_place[name] for name in changed} == changed
    assert (in_place["pending"], in_place["revision"]) == (False, 1)
    assert (anew["pending"], anew["revision"]) == (True, 3)


async def test_upkeep_is_for_the_system_alone(alone: Alone) -> None:
    async with alone.serving(), alone.channel() as channel:
        upkeep = rpc.UpkeepServiceStub(channel)

        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await upkeep.EnsurePartitions(pb.EnsurePartitionsRequest())
        with refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_MISSING"):
            await upkeep.DeleteExpired(pb.DeleteExpiredRequest())


async def test_a_memory_lies_in_the_partition_of_its_month(alone: Alone) -> None:
    times = [datetime(1999, 12, 31, tzinfo=UTC), datetime(2016, 2, 29, 23, 59, tzinfo=UTC), now()]
    batch = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=str(time)) for time in times])
    for given, at in zip(batch.memories, times, strict=True):
        given.create_time.FromDatetime(at)
    async with alone.serving(), alone.channel() as channel:
        await rpc.MemoryServiceStub(channel).BatchCreateMemories(batch)

    rows = await alone.rows("SELECT tableoid::regclass::text AS partition FROM memory.entries ORDER BY create_time")
    assert [row["partition"] for row in rows] == [
        "memory.entries_before_2015",
        "memory.entries_y2016m02",
        f"memory.entries_{now():y%Ym%m}",
    ]


async def test_old_months_are_made_while_others_write(alone: Alone) -> None:
    async def write(number: int) -> None:
        memory = pb.Memory(content="x", type="fact", key=f"k{number}", external_id=f"e{number}", tags=["t"])
        memory.create_time.FromDatetime(datetime(2015 + number % 10, 1 + number // 10 % 12, 1, tzinfo=UTC))
        created = await stub.CreateMemory(pb.CreateMemoryRequest(memory=memory))
        await links.CreateLink(
            pb.CreateLinkRequest(link=pb.Link(from_memory_id=created.memory.memory_id, to_memory_id=hub))
        )

    async with alone.serving(), alone.channel() as channel:
        stub, links = rpc.MemoryServiceStub(channel), rpc.LinkServiceStub(channel)
        hub = (await stub.CreateMemory(request("hub"))).memory.memory_id

        outcomes = await asyncio.gather(*(write(number) for number in range(60)), return_exceptions=True)

    assert [outcome for outcome in outcomes if outcome is not None] == []
