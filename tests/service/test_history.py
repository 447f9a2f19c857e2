"""The event log: every change once, in order, listed in pages and watched as it grows."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused
from fix_database import all_told
from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import history_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.ids import new_id, now

SECONDS = 60.0


async def remember(tenant: Tenant, text: str = "tea") -> str:
    request = memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=text))
    return (await tenant.memory.CreateMemory(request)).memory.memory_id


async def rename(tenant: Tenant, memory_id: str) -> None:
    request = memory_pb2.UpdateMemoryRequest(
        memory=memory_pb2.Memory(memory_id=memory_id, title="renamed"), update_mask=FieldMask(paths=["title"])
    )
    await tenant.memory.UpdateMemory(request)


async def listed(tenant: Tenant, *, page_size: int = 0, **fields: Any) -> list[pb.Change]:
    """Return what all pages hold."""
    results: list[pb.Change] = []
    token = ""
    while True:
        request = pb.ListChangesRequest(page_size=page_size, page_token=token, **fields)
        page = await tenant.history.ListChanges(request)
        results += page.changes
        token = page.next_page_token
        if not token:
            return results


class TimedStream:
    """A stream that is read with a limit of time."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.position = ""

    async def answer(self) -> pb.StreamChangesResponse:
        answer: Any = await asyncio.wait_for(self.call.read(), SECONDS)
        assert answer is not grpc.aio.EOF
        self.position = answer.position
        result: pb.StreamChangesResponse = answer
        return result

    async def change(self) -> pb.Change:
        """Return the next change, passing over heartbeats."""
        while True:
            answer = await self.answer()
            if answer.HasField("change"):
                return answer.change

    async def changes(self, count: int) -> list[pb.Change]:
        return [await self.change() for _ in range(count)]


@asynccontextmanager
async def watching(tenant: Tenant, **fields: Any) -> AsyncIterator[TimedStream]:
    """Watch until the block ends; the watch has begun when the block does."""
    watch = TimedStream(tenant.history.StreamChanges(pb.StreamChangesRequest(**fields)))
    try:
        await watch.answer()
        yield watch
    finally:
        watch.call.cancel()


@asynccontextmanager
async def role(cluster: Cluster) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Connect as the memory service does."""
    url = cluster.postgres.url(user="postgres", database="skein")
    connection = await asyncpg.connect(**connect_arguments(url, database_role("memory")))
    try:
        yield connection
    finally:
        await connection.close()


async def insert(connection: asyncpg.Connection[asyncpg.Record], tenant: Tenant, entity_id: str) -> None:
    """Write a change in the transaction at hand."""
    await connection.execute(f"SET LOCAL skein.tenant_id = '{tenant.tenant_id}'")
    await connection.execute(
        """
        INSERT INTO memory.changes
            (tenant_id, change_id, event_type, entity_type, entity_id, summary, principal, create_time)
        VALUES ($1, $2, 'memory_created', 'memory', $3, 'test', 'test', $4)
        """,
        tenant.tenant_id,
        new_id(now()),
        entity_id,
        now(),
    )


def ids(changes: Sequence[pb.Change]) -> list[str]:
    return [change.entity_id for change in changes]


async def test_changes_are_listed_oldest_first_and_say_who_did_what(cluster: Cluster, tenant: Tenant) -> None:
    memory_id = await remember(tenant)
    await rename(tenant, memory_id)
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))
    await all_told(cluster.postgres)

    changes = await listed(tenant)

    assert [change.event_type for change in changes] == ["memory_created", "memory_updated", "memory_deleted"]
    assert set(ids(changes)) == {memory_id}
    assert all(change.principal.startswith("api_key:") and change.HasField("create_time") for change in changes)
    assert json_format.MessageToDict(changes[1].payload)["fields"] == ["title"]


async def test_pages_hold_everything_once_in_order(cluster: Cluster, tenant: Tenant) -> None:
    made = [await remember(tenant) for _ in range(7)]
    await all_told(cluster.postgres)

    for size in (1, 2, 3, 7, 8):
        assert ids(await listed(tenant, page_size=size)) == made


async def test_a_position_resumes_after_its_change(cluster: Cluster, tenant: Tenant) -> None:
    made = [await remember(tenant) for _ in range(3)]
    await all_told(cluster.postgres)
    first = (await listed(tenant))[0]

    assert ids(await listed(tenant, position=first.position)) == made[1:]


async def test_the_position_of_the_last_page_is_where_news_begin(cluster: Cluster, tenant: Tenant) -> None:
    await remember(tenant)
    await all_told(cluster.postgres)
    page = await tenant.history.ListChanges(pb.ListChangesRequest())

    later = await remember(tenant)
    await all_told(cluster.postgres)

    assert ids(await listed(tenant, position=page.position)) == [later]


async def test_filters_choose_by_type_kind_and_thing(cluster: Cluster, tenant: Tenant) -> None:
    first, second = await remember(tenant), await remember(tenant)
    await rename(tenant, first)
    await all_told(cluster.postgres)

    async def chosen(**fields: Any) -> list[tuple[str, str]]:
        changes = await listed(tenant, page_size=1, filter=pb.ChangeFilter(**fields))
        return [(change.entity_id, change.event_type) for change in changes]

    assert await chosen(event_types=["memory_updated"]) == [(first, "memory_updated")]
    assert await chosen(entity_id=second) == [(second, "memory_created")]
    assert await chosen(entity_id=first) == [(first, "memory_created"), (first, "memory_updated")]
    assert await chosen(entity_id=first, event_types=["memory_updated"]) == [(first, "memory_updated")]
    assert await chosen(entity_type="link") == []
    # MemoryVault's name of the same event.
    assert await chosen(event_types=["memory_saved"], entity_id=second) == [(second, "memory_created")]
    assert len(await chosen(entity_type="memory")) == 3


@pytest.mark.parametrize("page_size", [1, 2, 50])
async def test_the_newest_come_first_when_they_are_asked_first(
    cluster: Cluster, tenant: Tenant, page_size: int
) -> None:
    made = [await remember(tenant) for _ in range(5)]
    await all_told(cluster.postgres)

    assert ids(await listed(tenant, page_size=page_size, newest_first=True)) == made[::-1]


async def test_newest_first_goes_back_from_before_a_position_and_filters(cluster: Cluster, tenant: Tenant) -> None:
    first, second = await remember(tenant), await remember(tenant)
    await rename(tenant, first)
    await all_told(cluster.postgres)
    last = (await listed(tenant))[-1]

    assert ids(await listed(tenant, newest_first=True, position=last.position)) == [second, first]
    of_first = await listed(tenant, page_size=1, newest_first=True, filter=pb.ChangeFilter(entity_id=first))
    assert [change.event_type for change in of_first] == ["memory_updated", "memory_created"]
    created = pb.ChangeFilter(event_types=["memory_created"])
    assert ids(await listed(tenant, newest_first=True, filter=created)) == [second, first]


async def test_a_watch_from_the_newest_page_sends_what_comes_after_it(cluster: Cluster, tenant: Tenant) -> None:
    for _ in range(3):
        await remember(tenant)
    await all_told(cluster.postgres)
    page = await tenant.history.ListChanges(pb.ListChangesRequest(page_size=1, newest_first=True))

    later = await remember(tenant)
    await all_told(cluster.postgres)

    assert ids(await listed(tenant, position=page.position)) == [later]


async def test_changes_made_meanwhile_move_no_page_of_the_newest(cluster: Cluster, tenant: Tenant) -> None:
    made = [await remember(tenant) for _ in range(3)]
    await all_told(cluster.postgres)
    page = await tenant.history.ListChanges(pb.ListChangesRequest(page_size=1, newest_first=True))
    await remember(tenant)
    await all_told(cluster.postgres)

    following = pb.ListChangesRequest(page_size=2, newest_first=True, page_token=page.next_page_token)

    assert ids((await tenant.history.ListChanges(following)).changes) == made[1::-1]


async def test_an_event_that_never_comes_is_refused(tenant: Tenant) -> None:
    change_filter = pb.ChangeFilter(event_types=["memory_created", "memory_invented"])

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.history.ListChanges(pb.ListChangesRequest(filter=change_filter))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await tenant.history.StreamChanges(pb.StreamChangesRequest(filter=change_filter)).read()


@pytest.mark.parametrize("position", ["x", "é", "AAAA", "_" * 32, "A" * 31, "a+/=" * 8])
async def test_a_position_that_is_none_is_refused(tenant: Tenant, position: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "POSITION_INVALID"):
        await tenant.history.ListChanges(pb.ListChangesRequest(position=position))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "POSITION_INVALID"):
        await tenant.history.StreamChanges(pb.StreamChangesRequest(position=position)).read()


async def test_a_position_that_lies_ahead_of_the_log_is_refused(tenant: Tenant) -> None:
    ahead = "f_________" + "A" * 22

    with refused(grpc.StatusCode.INVALID_ARGUMENT, "POSITION_INVALID"):
        await tenant.history.ListChanges(pb.ListChangesRequest(position=ahead))


async def test_a_page_token_belongs_to_its_question_and_tenant(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    for _ in range(2):
        await remember(tenant)
    await all_told(cluster.postgres)
    token = (await tenant.history.ListChanges(pb.ListChangesRequest(page_size=1))).next_page_token

    for asking, request in (
        (other_tenant, pb.ListChangesRequest(page_token=token)),
        (tenant, pb.ListChangesRequest(page_token=token, filter=pb.ChangeFilter(entity_type="link"))),
        (tenant, pb.ListChangesRequest(page_token=token[:-4])),
    ):
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID"):
            await asking.history.ListChanges(request)


async def test_a_position_shows_nothing_of_another_tenant(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    position = (await other_tenant.history.ListChanges(pb.ListChangesRequest())).position
    await remember(other_tenant)
    await all_told(cluster.postgres)

    assert await listed(tenant, position=position) == []


async def test_a_watch_sends_what_happens_from_now_on(tenant: Tenant) -> None:
    await remember(tenant)

    async with watching(tenant) as watch:
        made = [await remember(tenant) for _ in range(3)]

        assert ids(await watch.changes(3)) == made


async def test_a_watch_resumes_where_it_was(tenant: Tenant) -> None:
    async with watching(tenant) as watch:
        first = await remember(tenant)
        assert ids(await watch.changes(1)) == [first]
    meanwhile = [await remember(tenant) for _ in range(2)]

    async with watching(tenant, position=watch.position) as watch:
        later = await remember(tenant)

        assert ids(await watch.changes(3)) == [*meanwhile, later]


async def test_a_watch_sends_only_what_is_wanted(tenant: Tenant) -> None:
    async with watching(tenant, filter=pb.ChangeFilter(event_types=["memory_updated"])) as watch:
        memory_id = await remember(tenant)
        await rename(tenant, memory_id)

        assert (await watch.change()).event_type == "memory_updated"


async def test_tenants_do_not_hear_of_one_another(tenant: Tenant, other_tenant: Tenant) -> None:
    async with watching(tenant) as watch:
        await remember(other_tenant)
        own = await remember(tenant)

        assert ids(await watch.changes(1)) == [own]


@pytest.mark.system
async def test_all_who_watch_see_the_same(tenant: Tenant) -> None:
    async with watching(tenant) as first, watching(tenant) as second, watching(tenant) as third:
        made = [await remember(tenant) for _ in range(5)]

        for watch in (first, second, third):
            assert ids(await watch.changes(5)) == made


async def test_a_late_commit_holds_back_what_was_committed_before_it(cluster: Cluster, tenant: Tenant) -> None:
    late, early = f"late-{uuid.uuid4()}", f"early-{uuid.uuid4()}"
    async with watching(tenant) as watch, role(cluster) as slow, role(cluster) as fast:
        begun = slow.transaction()
        await begun.start()
        await insert(slow, tenant, late)
        async with fast.transaction():
            await insert(fast, tenant, early)
        assert ids(await listed(tenant)) == []

        await begun.commit()

        assert ids(await watch.changes(2)) == [late, early]
        assert ids(await listed(tenant)) == [late, early]


class Writer:
    """A client whose transaction stays open for a while."""

    def __init__(self, name: str, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self.name = name
        self.connection = connection
        self.begun: Any = None
        self.written: list[str] = []
        self.count = 0

    async def step(self, tenant: Tenant, chance: random.Random, committed: set[str]) -> None:
        """Begin, write or end, by chance."""
        if self.begun is None:
            self.begun = self.connection.transaction()
            await self.begun.start()
        elif len(self.written) < 3 and chance.random() < 0.6:
            self.count += 1
            self.written.append(f"{self.name}-{self.count}")
            await insert(self.connection, tenant, self.written[-1])
        else:
            await self.end(committed, commits=chance.random() < 0.8)

    async def end(self, committed: set[str], *, commits: bool) -> None:
        if self.begun is None:
            return
        await (self.begun.commit() if commits else self.begun.rollback())
        if commits:
            committed.update(self.written)
        self.begun, self.written = None, []


@pytest.mark.system
@pytest.mark.parametrize("seed", range(3))
async def test_readers_see_each_change_once_in_one_order_whatever_writers_do(
    cluster: Cluster, tenant: Tenant, seed: int
) -> None:
    chance = random.Random(seed)
    committed: set[str] = set()
    positions = ["", ""]
    readers: list[list[str]] = [[], []]

    async def read(number: int) -> None:
        request = pb.ListChangesRequest(position=positions[number], page_size=chance.randint(1, 5))
        page = await tenant.history.ListChanges(request)
        readers[number] += ids(page.changes)
        positions[number] = page.position

    async with AsyncExitStack() as stack:
        watch = await stack.enter_async_context(watching(tenant))
        writers = [Writer(f"writer-{number}", await stack.enter_async_context(role(cluster))) for number in range(6)]
        for _ in range(150):
            await asyncio.gather(
                *(writer.step(tenant, chance, committed) for writer in chance.sample(writers, 3)), read(0), read(1)
            )
        for writer in writers:
            await writer.end(committed, commits=True)
        seen = ids(await watch.changes(len(committed)))
    for number in (0, 1):
        readers[number] += ids(await listed(tenant, position=positions[number]))

    assert sorted(seen) == sorted(committed)
    assert readers == [seen, seen]
    assert ids(await listed(tenant)) == seen
