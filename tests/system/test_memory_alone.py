"""The memory service without its neighbours: recall is away, and the worker's calls come from a key of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import grpc
from fix_cluster import refused
from fix_database import all_told
from fix_memory import MemoryServer

from skein.memory.v1 import history_pb2, history_pb2_grpc, snapshots_pb2, snapshots_pb2_grpc
from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein_kit.ids import add_months, month_start, now
from skein_memory.memories.model import MAX_CONTENT_CHARACTERS


def request(content: str, request_id: str = "", **fields: Any) -> pb.CreateMemoryRequest:
    return pb.CreateMemoryRequest(memory=pb.Memory(content=content, **fields), request_id=request_id)


def update_of(memory_id: str, *paths: str, **fields: Any) -> pb.UpdateMemoryRequest:
    return pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, **fields), update_mask={"paths": paths})


def later(*, hours: int) -> datetime:
    return now() + timedelta(hours=hours)


async def expire(memory_server: MemoryServer, memory_ids: Sequence[str], *, ago: str = "1 second") -> None:
    """Let the time of memories run out so long ago."""
    async with memory_server.database.superuser() as connection:
        for table, column in (("memory.memories", "memory_id"), ("recall.documents", "item_id")):
            await connection.execute(
                f"UPDATE {table} SET expire_time = now() - interval '{ago}' WHERE {column} = ANY ($1)",  # noqa: S608 - constants.
                [UUID(memory_id) for memory_id in memory_ids],
            )


async def indexed(memory_server: MemoryServer) -> set[str]:
    return {str(row["item_id"]) for row in await memory_server.rows("SELECT item_id FROM recall.documents")}


async def test_without_recall_memories_are_stored_and_wait_for_their_vectors(memory_server: MemoryServer) -> None:
    async with memory_server.serving(), memory_server.channel() as channel:
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
    documents = await memory_server.rows("SELECT pending, revision FROM recall.documents ORDER BY revision")
    assert [tuple(row) for row in documents] == [(True, 1), (True, 1), (True, 2)]


async def test_every_write_keeps_the_index_as_the_memory_is(memory_server: MemoryServer) -> None:
    async def index() -> tuple[set[str], list[tuple[Any, ...]]]:
        terms = await memory_server.rows("SELECT term FROM recall.postings")
        documents = await memory_server.rows("SELECT type, source, revision FROM recall.documents")
        return {row["term"] for row in terms}, [tuple(row) for row in documents]

    async def update(paths: list[str], **fields: Any) -> None:
        changed = pb.Memory(memory_id="x", **fields)
        await memory.UpdateMemory(pb.UpdateMemoryRequest(memory=changed, update_mask={"paths": paths}))

    async with memory_server.serving(), memory_server.channel(agent_id="kitchen") as channel:
        memory = rpc.MemoryServiceStub(channel)
        await memory.CreateMemory(request("the lighthouse", title="On cliffs", external_id="x", source="a"))
        # The agent's id is a name, so it stands over the text.
        assert await index() == ({"lighthous", "cliff", "kitchen"}, [("note", "a", 1)])
        await update(["tags", "level", "metadata"], tags=["t"])
        assert await index() == ({"lighthous", "cliff", "kitchen"}, [("note", "a", 1)])
        await update(["title", "source"])
        assert await index() == ({"lighthous", "kitchen"}, [("note", None, 3)])
        await memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id="x"))
        assert await index() == (set(), [])
        await memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id="x"))
        assert await index() == ({"lighthous", "kitchen"}, [("note", None, 5)])


async def test_a_refused_write_leaves_no_row_anywhere(memory_server: MemoryServer) -> None:
    tables = ("memories", "tags", "external_ids", "fact_keys", "requests")
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        await memory.CreateMemory(request("a", type="fact", key="k"))
        before = [len(await memory_server.rows(f"SELECT FROM memory.{table}")) for table in tables]

        with refused(grpc.StatusCode.ALREADY_EXISTS, "FACT_KEY_TAKEN"):
            await memory.CreateMemory(request("b", request_id="r", type="fact", key="k", tags=["t"], external_id="x"))

    after = [len(await memory_server.rows(f"SELECT FROM memory.{table}")) for table in tables]
    assert after == before
    assert len(await memory_server.rows("SELECT FROM recall.documents")) == 1


async def test_spaces_around_the_longest_content_do_not_count(memory_server: MemoryServer) -> None:
    longest = "x" * MAX_CONTENT_CHARACTERS
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)

        created = await memory.CreateMemory(request(f" {longest} "))
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_TOO_LONG"):
            await memory.CreateMemory(request(f"{longest}x"))

    assert created.memory.content == longest


async def test_the_months_ahead_are_made_once(memory_server: MemoryServer) -> None:
    async with memory_server.serving(), memory_server.channel(system=True, tenant=False) as channel:
        internal = rpc.MemoryInternalServiceStub(channel)

        first = await internal.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        again = await internal.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        default = await internal.EnsurePartitions(pb.EnsurePartitionsRequest())

    # The migration made this month and three more.
    assert (first.created_count, again.created_count, default.created_count) == (2, 0, 0)
    assert first.horizon_time.ToDatetime(UTC) == add_months(month_start(now()), 6)
    assert default.horizon_time.ToDatetime(UTC) == add_months(month_start(now()), 4)


async def test_answers_are_forgotten_after_a_day(memory_server: MemoryServer) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        await memory.CreateMemory(request("old", request_id="old"))
        await memory.CreateMemory(request("new", request_id="new"))
        async with memory_server.database.superuser() as connection:
            await connection.execute(
                "UPDATE memory.requests SET create_time = $1 WHERE request_id = 'old'",
                datetime.now(UTC) - timedelta(hours=25),
            )

        deleted = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        await memory.CreateMemory(request("old", request_id="old"))
        await memory.CreateMemory(request("new", request_id="new"))

    assert deleted.deleted_count == 1
    assert len(await memory_server.rows("SELECT FROM memory.memories")) == 3


async def test_expired_memories_leave_the_index_and_stay_for_the_grace(memory_server: MemoryServer) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        kept = (await memory.CreateMemory(request("kept", expire_time=later(hours=1)))).memory
        batch = [pb.Memory(content=f"gone {number}", expire_time=later(hours=1)) for number in range(450)]
        gone = (await memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))).memories
        await expire(memory_server, [expired.memory_id for expired in gone])

        first = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        again = await internal.DeleteExpired(pb.DeleteExpiredRequest())

    assert (first.deleted_count, again.deleted_count) == (450, 0)
    assert len(await memory_server.rows("SELECT FROM memory.memories")) == 451
    assert await indexed(memory_server) == {kept.memory_id}
    assert {str(row["item_id"]) for row in await memory_server.rows("SELECT item_id FROM recall.postings")} == {
        kept.memory_id
    }


async def test_expired_memories_are_erased_after_the_grace_with_everything_of_them(memory_server: MemoryServer) -> None:
    tables = ("memories", "versions", "tags", "properties", "external_ids", "fact_keys", "links", "snapshot_items")
    fields: dict[str, Any] = {"type": "fact", "tags": ["t"], "metadata": {"a": "b"}, "expire_time": later(hours=1)}
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        history, snapshots = (
            history_pb2_grpc.HistoryServiceStub(channel),
            snapshots_pb2_grpc.SnapshotServiceStub(channel),
        )
        ids = [
            (await memory.CreateMemory(request(f"{n}", key=f"k{n}", external_id=f"x{n}", **fields))).memory.memory_id
            for n in range(2)
        ]
        await rpc.LinkServiceStub(channel).CreateLink(
            pb.CreateLinkRequest(link=pb.Link(from_memory_id=ids[0], to_memory_id=ids[1], relation="causes"))
        )
        await memory.UpdateMemory(update_of(ids[0], "title", title="t"))
        await snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))
        await expire(memory_server, ids[:1], ago="23 hours 59 minutes")
        await internal.DeleteExpired(pb.DeleteExpiredRequest())
        within_grace = len(await memory_server.rows("SELECT FROM memory.memories"))
        await expire(memory_server, ids[:1], ago="24 hours 1 minute")

        done = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        again = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        await all_told(memory_server.database.server)
        filter_ = history_pb2.ChangeFilter(event_types=["memory_purged"])
        events = (await history.ListChanges(history_pb2.ListChangesRequest(filter=filter_))).changes

    assert (within_grace, done.deleted_count, again.deleted_count) == (2, 1, 0)
    assert [(event.entity_id, event.payload["cause"], event.principal) for event in events] == [
        (ids[0], "expired", "system:worker")
    ]
    for table in tables:
        rows = await memory_server.rows(f"SELECT * FROM memory.{table}")  # noqa: S608 - constants.
        assert not [row for row in rows if UUID(ids[0]) in tuple(row)], table
    (used,) = await memory_server.rows("SELECT sum(amount) AS memories FROM memory.usage WHERE kind = 'memories'")
    assert used["memories"] == 1


async def test_the_policy_says_how_long_expired_memories_are_kept(memory_server: MemoryServer) -> None:
    async with (
        memory_server.serving(),
        memory_server.database.superuser() as connection,
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, expiry_grace_hours, update_time) VALUES ($1, 48, now())",
            memory_server.tenant_id,
        )
        ids = [(await memory.CreateMemory(request("x", expire_time=later(hours=1)))).memory.memory_id for _ in range(2)]
        await expire(memory_server, ids[:1], ago="47 hours")
        await expire(memory_server, ids[1:], ago="49 hours")

        await internal.DeleteExpired(pb.DeleteExpiredRequest())

    assert [str(row["memory_id"]) for row in await memory_server.rows("SELECT memory_id FROM memory.memories")] == ids[
        :1
    ]


async def test_a_memory_purged_for_its_expiry_may_be_imported_again(memory_server: MemoryServer) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, snapshots = rpc.MemoryServiceStub(channel), snapshots_pb2_grpc.SnapshotServiceStub(channel)
        line = '{"memory": {"content": "tea", "external_id": "x", "expire_time": "2024-01-01T00:00:00Z"}}'
        await snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line))
        await rpc.MemoryInternalServiceStub(system).DeleteExpired(pb.DeleteExpiredRequest())
        erased = len(await memory_server.rows("SELECT FROM memory.memories"))

        line = '{"memory": {"content": "tea", "external_id": "x"}}'
        imported = await snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line))
        response = await memory.GetMemory(pb.GetMemoryRequest(memory_id="x"))

    assert (erased, dict(imported.counts.created), response.memory.content) == (0, {"memory": 1}, "tea")


async def test_one_that_an_import_brings_back_after_it_left_the_index_is_in_it_again(
    memory_server: MemoryServer,
) -> None:
    async with (
        memory_server.serving(),
        memory_server.channel() as channel,
        memory_server.channel(system=True) as system,
    ):
        memory, snapshots = rpc.MemoryServiceStub(channel), snapshots_pb2_grpc.SnapshotServiceStub(channel)
        created = await memory.CreateMemory(request("x", external_id="x", expire_time=later(hours=1)))
        await expire(memory_server, [created.memory.memory_id])
        await rpc.MemoryInternalServiceStub(system).DeleteExpired(pb.DeleteExpiredRequest())
        was_indexed = await indexed(memory_server)

        line = '{"memory": {"content": "x", "external_id": "x"}}'
        await snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=line))

    assert (was_indexed, await indexed(memory_server)) == (set(), {created.memory.memory_id})


async def test_fields_that_only_filters_use_change_without_losing_vectors(memory_server: MemoryServer) -> None:
    async with memory_server.serving(), memory_server.channel() as channel:
        memory = rpc.MemoryServiceStub(channel)
        stored = (await memory.CreateMemory(request("the lighthouse"))).memory
        async with memory_server.database.superuser() as connection:
            await connection.execute("UPDATE recall.documents SET pending = false")

        changed = {"importance": 0.25, "source": "mail", "type": "task", "agent_id": "a", "subject_id": "user-7"}
        update = update_of(stored.memory_id, *changed, **changed)
        answer = await memory.UpdateMemory(update)
        (in_place,) = await memory_server.rows("SELECT * FROM recall.documents")
        await memory.UpdateMemory(update_of(stored.memory_id, "content", content="the windmill"))
        (anew,) = await memory_server.rows("SELECT * FROM recall.documents")

    assert not answer.embedding_pending
    assert {name: in_place[name] for name in changed} == changed
    assert (in_place["pending"], in_place["revision"]) == (False, 1)
    assert (anew["pending"], anew["revision"]) == (True, 3)


async def test_a_memory_lies_in_the_partition_of_its_month(memory_server: MemoryServer) -> None:
    times = [datetime(1999, 12, 31, tzinfo=UTC), datetime(2016, 2, 29, 23, 59, tzinfo=UTC), now()]
    batch = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=str(time)) for time in times])
    for memory, at in zip(batch.memories, times, strict=True):
        memory.create_time.FromDatetime(at)
    async with memory_server.serving(), memory_server.channel() as channel:
        await rpc.MemoryServiceStub(channel).BatchCreateMemories(batch)

    rows = await memory_server.rows(
        "SELECT tableoid::regclass::text AS partition FROM memory.memories ORDER BY create_time"
    )
    assert [row["partition"] for row in rows] == [
        "memory.memories_before_2015",
        "memory.memories_y2016m02",
        f"memory.memories_{now():y%Ym%m}",
    ]


async def test_old_months_are_made_while_others_write(memory_server: MemoryServer) -> None:
    async def write(number: int) -> None:
        memory = pb.Memory(content="x", type="fact", key=f"k{number}", external_id=f"e{number}", tags=["t"])
        memory.create_time.FromDatetime(datetime(2015 + number % 10, 1 + number // 10 % 12, 1, tzinfo=UTC))
        created = await stub.CreateMemory(pb.CreateMemoryRequest(memory=memory))
        await links.CreateLink(
            pb.CreateLinkRequest(link=pb.Link(from_memory_id=created.memory.memory_id, to_memory_id=hub))
        )

    async with memory_server.serving(), memory_server.channel() as channel:
        stub, links = rpc.MemoryServiceStub(channel), rpc.LinkServiceStub(channel)
        hub = (await stub.CreateMemory(request("hub"))).memory.memory_id

        outcomes = await asyncio.gather(*(write(number) for number in range(60)), return_exceptions=True)

    assert [outcome for outcome in outcomes if outcome is not None] == []


async def test_what_waits_for_approval_expires_by_the_policy_with_an_event(memory_server: MemoryServer) -> None:
    async with memory_server.database.superuser() as connection:
        await connection.execute(
            "INSERT INTO tenancy.policies (tenant_id, approval, approval_expiry_days, update_time) "
            "VALUES ($1, 'agents', 3, now())",
            memory_server.tenant_id,
        )
    due_request = pb.ListDueTenantsRequest(work=pb.DUE_WORK_EXPIRY)
    async with (
        memory_server.serving(),
        memory_server.channel(agent_id="kitchen") as channel,
        memory_server.channel(system=True) as system,
        memory_server.channel(system=True, tenant=False) as worker,
    ):
        memory, internal = rpc.MemoryServiceStub(channel), rpc.MemoryInternalServiceStub(system)
        due_tenants = rpc.MemoryInternalServiceStub(worker)
        # The caller acts as an agent.
        gone, kept = [(await memory.CreateMemory(request(text))).memory for text in ("gone", "kept")]
        due_before = (await due_tenants.ListDueTenants(due_request)).tenant_ids
        async with memory_server.database.superuser() as connection:
            lifetimes = await connection.fetch("SELECT expire_time - create_time AS days FROM memory.pending_memories")
            await connection.execute(
                "UPDATE memory.pending_memories SET expire_time = now() WHERE pending_id = $1", UUID(gone.memory_id)
            )
        due = (await due_tenants.ListDueTenants(due_request)).tenant_ids

        first = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        again = await internal.DeleteExpired(pb.DeleteExpiredRequest())

    rows = await memory_server.rows("SELECT pending_id FROM memory.pending_memories")
    events = await memory_server.rows(
        "SELECT entity_id FROM memory.changes WHERE event_type = 'memory_pending_expired'"
    )
    assert {row["days"] for row in lifetimes} == {timedelta(days=3)}
    assert (list(due_before), list(due)) == ([], [str(memory_server.tenant_id)])
    assert (first.deleted_count, again.deleted_count) == (1, 0)
    assert [str(row["pending_id"]) for row in rows] == [kept.memory_id]
    assert [row["entity_id"] for row in events] == [gone.memory_id]
