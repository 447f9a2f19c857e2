"""Reads from a streaming replica, whose replay the tests pause: no reader goes back in time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import grpc
import httpx
import pytest
from fix_cluster import Tenant
from fix_metrics import sample
from fix_own_postgres import follow, migrated, open_folder, served_on, url_of
from fix_proxy import Proxy
from google.protobuf import field_mask_pb2
from grpc import aio

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_client import Aborted
from skein_client.client import Client
from skein_cluster import embedded
from skein_cluster.embedded.databases import DATABASE
from skein_kit.access_log.writer import AccessLog
from skein_kit.calls.call import Call, as_current_call
from skein_kit.calls.database_revision import (
    MIN_REVISION_KEY,
    REPLICA_READS,
    REVISION_KEY,
    UNREACHABLE_REVISION,
    format_revision,
)
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.errors import DatabaseUnavailable
from skein_kit.identity.identity_token import Caller
from skein_kit.policies.store import PolicyCache
from skein_kit.telemetry.metrics import REPLICA_READ_COUNT

ANY_AGE = {MIN_REVISION_KEY: "0"}
GET = "/skein.memory.v1.MemoryService/GetMemory"
IN_RECOVERY = Query.parse("in_recovery", "SELECT pg_is_in_recovery()")


@dataclass(kw_only=True)
class ReplicaPair:
    """A cluster on a primary and its replica."""

    tenant: Tenant
    endpoint: str
    http: str
    primary: embedded.Server
    replica: embedded.Server
    stop_replica: Callable[[], Any]

    @asynccontextmanager
    async def replay_paused(self) -> AsyncIterator[None]:
        """Let the replica stay where it is; afterwards it has all."""
        replica = await asyncpg.connect(url_of(self.replica))
        primary = await asyncpg.connect(url_of(self.primary))
        try:
            await replica.execute("SELECT pg_wal_replay_pause()")
            yield
            await replica.execute("SELECT pg_wal_replay_resume()")
            # What no commit waits for would be sent seconds later: this commit takes it along.
            await primary.execute("SELECT pg_logical_emit_message(true, 'test', 'all until here')")
            at = await primary.fetchval("SELECT pg_current_wal_flush_lsn()")
            async with asyncio.timeout(30):
                while not await replica.fetchval("SELECT pg_last_wal_replay_lsn() >= $1", at):
                    await asyncio.sleep(0.01)
        finally:
            await replica.close()
            await primary.close()

    @asynccontextmanager
    async def with_policy(self, **policy: Any) -> AsyncIterator[None]:
        """Give the tenant a policy for as long as the block lasts."""
        before = (await self.tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())).policy
        # Whatever it is by then.
        before.revision = 0
        changed = subjects_pb2.UpdatePolicyRequest(update_mask=field_mask_pb2.FieldMask(paths=list(policy)))
        changed.policy.CopyFrom(subjects_pb2.Policy(**policy))
        await self.tenant.tenancy.UpdatePolicy(changed)
        try:
            yield
        finally:
            changed.policy.CopyFrom(before)
            await self.tenant.tenancy.UpdatePolicy(changed)


def reads(outcome: str) -> float:
    """Return how many reads ended so, over all services."""
    samples = (sample for metric in REPLICA_READ_COUNT.collect() for sample in metric.samples)
    return sum(each.value for each in samples if each.name.endswith("_total") and each.labels["outcome"] == outcome)


@asynccontextmanager
async def paired() -> AsyncIterator[ReplicaPair]:
    """Run a cluster on a primary that a replica follows."""
    async with AsyncExitStack() as stack, AsyncExitStack() as replicas:
        folder = stack.enter_context(open_folder())
        base = await migrated(folder)
        primary = await stack.enter_async_context(embedded.running_server(folder / "postgres"))
        await follow(primary, folder / "replica")
        replica = await replicas.enter_async_context(embedded.running_server(folder / "replica"))
        async with served_on(base, primary, SKEIN_REPLICA_URL=url_of(replica)) as (host, tenant):
            yield ReplicaPair(
                tenant=tenant,
                endpoint=host.addresses["gateway"],
                http=f"http://{host.addresses['http']}",
                primary=primary,
                replica=replica,
                stop_replica=replicas.aclose,
            )


@pytest.fixture(scope="module")
async def pair() -> AsyncIterator[ReplicaPair]:
    async with paired() as result:
        yield result


async def stored(pair: ReplicaPair, content: str) -> tuple[str, str]:
    """Store a memory; return its id and the revision that came with the answer."""
    call = pair.tenant.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content=content)))
    response = await call
    return response.memory.memory_id, revision_of(await call.trailing_metadata())


def revision_of(metadata: Any) -> str:
    return next(str(value) for key, value in metadata or () if key == REVISION_KEY)


async def is_visible(pair: ReplicaPair, memory_id: str, least: str | None) -> bool:
    """Say whether a read that must show so much shows a memory."""
    metadata = () if least is None else ((MIN_REVISION_KEY, least),)
    try:
        await pair.tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id), metadata=metadata)
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return False
    return True


@pytest.mark.essential
async def test_a_read_of_any_age_may_be_old_and_one_with_a_revision_never_is(pair: ReplicaPair) -> None:
    async with pair.replay_paused():
        memory_id, revision = await stored(pair, "written while the replica stood still")

        async with asyncio.timeout(60):
            # A replica that a slow machine did not get to in time rests for some seconds.
            while await is_visible(pair, memory_id, "0"):
                await asyncio.sleep(0.05)
        since_the_write = await is_visible(pair, memory_id, revision)
        without_a_word = await is_visible(pair, memory_id, None)

    assert (since_the_write, without_a_word) == (True, True)
    assert await is_visible(pair, memory_id, "0")


async def test_a_replica_that_has_come_so_far_answers_itself(pair: ReplicaPair) -> None:
    async with pair.replay_paused():
        memory_id, revision = await stored(pair, "written and replayed")
    before = reads("served"), reads("behind")

    async with asyncio.timeout(60):
        # One that a slow machine did not get to in time rests for some seconds.
        while reads("served") == before[0]:
            assert await is_visible(pair, memory_id, revision)

    assert reads("behind") == before[1]


async def test_a_client_s_reads_never_go_backwards(pair: ReplicaPair) -> None:
    async with Client(endpoint=pair.endpoint, api_key=pair.tenant.api_key) as writer, pair.replay_paused():
        counts = []
        for number in range(5):
            await writer.memories.CreateMemory(
                pb.CreateMemoryRequest(memory=pb.Memory(content=f"step {number}", tags=["forward"]))
            )
            request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(tags_all=["forward"]))
            counts.append(len((await writer.memories.ListMemories(request)).memories))

    assert counts == [1, 2, 3, 4, 5]


async def test_a_reader_of_the_primary_is_not_shown_an_older_replica(pair: ReplicaPair) -> None:
    async with pair.replay_paused():
        _, first = await stored(pair, "one")
        memory_id, _ = await stored(pair, "two")
        call = pair.tenant.memory.GetMemory(
            pb.GetMemoryRequest(memory_id=memory_id), metadata=((MIN_REVISION_KEY, first),)
        )
        await call

        again = await is_visible(pair, memory_id, revision_of(await call.trailing_metadata()))

    assert again


@pytest.mark.parametrize("least", ["nonsense", "-1", "f" * 16, "f" * 300, "0x10", ""])
async def test_a_revision_that_is_none_is_answered_by_the_primary(pair: ReplicaPair, least: str) -> None:
    async with pair.replay_paused():
        memory_id, _ = await stored(pair, "asked for with nonsense")

        result = await is_visible(pair, memory_id, least)

    assert result


async def test_over_http_the_revision_is_a_header(pair: ReplicaPair) -> None:
    headers = {"authorization": f"Bearer {pair.tenant.api_key}", "content-type": "application/json"}
    service = f"{pair.http}/skein.memory.v1.MemoryService"
    async with httpx.AsyncClient(headers=headers, timeout=60) as http, pair.replay_paused():
        created = await http.post(f"{service}/CreateMemory", json={"memory": {"content": "over HTTP"}})
        fields = {"memoryId": created.json()["memory"]["memoryId"]}

        async with asyncio.timeout(60):
            # A replica that a slow machine did not get to in time rests for some seconds.
            while (old := await http.post(f"{service}/GetMemory", json=fields, headers=ANY_AGE)).status_code == 200:
                await asyncio.sleep(0.05)
        new = await http.post(
            f"{service}/GetMemory", json=fields, headers={MIN_REVISION_KEY: created.headers[REVISION_KEY]}
        )

    assert (old.status_code, new.status_code) == (404, 200)


async def test_a_refused_writer_is_not_shown_an_older_replica(pair: ReplicaPair) -> None:
    async with Client(endpoint=pair.endpoint, api_key=pair.tenant.api_key) as reader, pair.replay_paused():
        memory_id, _ = await stored(pair, "changed by somebody else meanwhile")
        with pytest.raises(Aborted):
            await reader.memories.UpdateMemory(
                pb.UpdateMemoryRequest(
                    memory=pb.Memory(memory_id=memory_id, revision=7, title="theirs"),
                    update_mask=field_mask_pb2.FieldMask(paths=["title"]),
                )
            )

        response = await reader.memories.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))

    assert response.memory.revision == 1


async def test_over_http_a_refusal_has_the_header_too(pair: ReplicaPair) -> None:
    headers = {"authorization": f"Bearer {pair.tenant.api_key}", "content-type": "application/json"}
    fields = {"memory": {"memoryId": str(uuid.uuid4()), "title": "nobody's"}, "updateMask": "title"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        refused = await http.post(f"{pair.http}/skein.memory.v1.MemoryService/UpdateMemory", json=fields)

    assert (refused.status_code, len(refused.headers[REVISION_KEY])) == (404, 16)


# What a service's database does, without the service.


@asynccontextmanager
async def followed_by(pair: ReplicaPair, url: str) -> AsyncIterator[Database]:
    """Open a service's database whose replica is found at a URL."""
    async with (
        Database.open(url_of(pair.primary), service="memory", size=2, timeout=30.0) as database,
        Database.open(url, service="memory", size=2, timeout=30.0, only_reads=True) as follower,
    ):
        database.use_replica(follower)
        yield database


async def is_from_replica(database: Database, least: int = 0, *, seen_revision: int = 0) -> bool:
    """Say who answers a read of a call that must show so much, and that has seen so much already."""
    deadline = asyncio.get_running_loop().time() + 30
    call = Call(path=GET, metadata={MIN_REVISION_KEY: format_revision(least)}, deadline=deadline, peer="test")
    call.observe_revision(seen_revision)
    with as_current_call(call):
        async with database.transaction(uuid.uuid4()) as tx:
            return bool(await tx.value(IN_RECOVERY))


async def test_a_tenant_that_has_every_access_recorded_may_read_from_a_replica(pair: ReplicaPair) -> None:
    tenant_id = pair.tenant.tenant_id
    call = Call(path=GET, metadata=ANY_AGE, deadline=None, peer="test")
    call.caller = Caller(principal="api_key:test", tenant_id=tenant_id, permissions=frozenset())
    answers: list[bool] = []

    async def answer(_request: pb.GetMemoryRequest, _context: object) -> pb.GetMemoryResponse:
        async with database.transaction(tenant_id) as tx:
            answers.append(await tx.value(IN_RECOVERY))
        return pb.GetMemoryResponse()

    async with (
        followed_by(pair, url_of(pair.replica)) as database,
        pair.replay_paused(),
        pair.with_policy(audit_strict=True),
    ):
        access_log = AccessLog(database, PolicyCache(), counts_uses=False)
        with as_current_call(call):
            await access_log.call_and_record(answer, pb.GetMemoryRequest(memory_id=str(uuid.uuid4())), call)
    async with AsyncExitStack() as stack:
        primary = await asyncpg.connect(url_of(pair.primary))
        stack.push_async_callback(primary.close)
        recorded = await primary.fetchval(
            "SELECT success FROM memory.access_log WHERE request_id = $1", call.request_id
        )

    assert (answers, recorded) == ([True], True)


async def test_a_policy_read_from_a_replica_counts_for_no_other_answer(pair: ReplicaPair) -> None:
    policies, tenant_id = PolicyCache(), pair.tenant.tenant_id
    call = Call(path=GET, metadata=ANY_AGE, deadline=None, peer="test")
    async with (
        followed_by(pair, url_of(pair.replica)) as database,
        pair.replay_paused(),
        pair.with_policy(path_max_hops=3),
    ):
        with as_current_call(call):
            async with database.transaction(tenant_id) as tx:
                before = await policies.get(tx, tenant_id)
        async with database.transaction(tenant_id) as tx:
            now = await policies.get(tx, tenant_id)

    assert (before.path_max_hops, now.path_max_hops) == (5, 3)


async def test_each_of_several_servers_behind_one_address_is_asked_how_far_it_is(pair: ReplicaPair) -> None:
    primary, replica = (socket_of(server) for server in (pair.primary, pair.replica))
    async with Proxy.to(primary) as proxy, followed_by(pair, through(proxy)) as database, pair.replay_paused():
        _, revision = await stored(pair, "the held one does not have it")
        served = reads("served")
        assert not await is_from_replica(database, int(revision, 16))
        assert reads("served") == served + 1

        proxy.lead(replica)
        proxy.reset()
        while proxy.links:
            await asyncio.sleep(0)
        again = [await is_from_replica(database, least) for least in (0, int(revision, 16))]

    assert again == [True, False]


async def test_within_a_call_nothing_goes_backwards_either(pair: ReplicaPair) -> None:
    async with followed_by(pair, url_of(pair.replica)) as database, pair.replay_paused():
        _, revision = await stored(pair, "seen by the call's first transaction")

        answered = [await is_from_replica(database, seen_revision=least) for least in (0, int(revision, 16))]

    assert answered == [True, False]


async def test_a_replica_that_goes_away_as_it_is_asked_leaves_the_read_to_the_primary(pair: ReplicaPair) -> None:
    _, revision = await stored(pair, "asked for on a connection that is lost")
    async with Proxy.to(socket_of(pair.replica)) as proxy, followed_by(pair, through(proxy)) as database:
        proxy.swallow(b"pg_last_wal_replay_lsn")

        assert not await is_from_replica(database, int(revision, 16))

    assert proxy.swallowed.is_set()


async def test_a_replica_that_refuses_connections_leaves_all_reads_to_the_primary(pair: ReplicaPair) -> None:
    async with followed_by(pair, pair.replica.url(user="postgres", database="nowhere")) as database:
        assert not await is_from_replica(database)


async def test_an_answer_that_cannot_tell_its_revision_is_none(pair: ReplicaPair) -> None:
    """Its caller could be shown something older next."""
    async with (
        Proxy.to(socket_of(pair.primary)) as proxy,
        Database.open(through(proxy), service="memory", size=2, timeout=30.0, only_reads=True) as database,
    ):
        proxy.swallow(b"pg_last_wal_replay_lsn")

        with pytest.raises(DatabaseUnavailable):
            await is_from_replica(database)

    assert proxy.swallowed.is_set()


async def test_a_number_that_no_server_has_come_to_costs_one_look(pair: ReplicaPair) -> None:
    def looks() -> float:
        labels = {"service": "memory", "query": "log_position"}
        return sample("skein_database_query_duration_seconds_count", **labels) or 0.0

    async with followed_by(pair, url_of(pair.replica)) as database:
        before = looks()

        assert not await is_from_replica(database, UNREACHABLE_REVISION - 1)

    assert looks() == before + 1


def socket_of(server: embedded.Server) -> Path:
    return Path(server.host) / f".s.PGSQL.{server.port}"


def through(proxy: Proxy) -> str:
    return f"postgresql://postgres@{proxy.address}/{DATABASE}?sslmode=disable"


async def test_every_read_that_a_replica_may_serve_is_served_by_it(pair: ReplicaPair) -> None:
    memory_id, _ = await stored(pair, "Green tea in the morning.")
    other_id, _ = await stored(pair, "Black tea at noon.")
    await pair.tenant.links.CreateLink(
        pb.CreateLinkRequest(link=pb.Link(from_memory_id=memory_id, to_memory_id=other_id, relation="related"))
    )
    block = await pair.tenant.blocks.CreateBlock(
        blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="persona", value="calm"))
    )
    response = await pair.tenant.sessions.AppendMessages(
        session_pb2.AppendMessagesRequest(
            session_id="s",
            create_session=True,
            messages=[session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="Is there tea?")],
        )
    )
    async with pair.replay_paused():
        pass
    tenant = pair.tenant
    calls: dict[str, tuple[Any, Any]] = {
        "GetMemory": (tenant.memory.GetMemory, pb.GetMemoryRequest(memory_id=memory_id)),
        "BatchGetMemories": (tenant.memory.BatchGetMemories, pb.BatchGetMemoriesRequest(memory_ids=[memory_id])),
        "ListMemories": (tenant.memory.ListMemories, pb.ListMemoriesRequest()),
        "ListLinks": (tenant.links.ListLinks, pb.ListLinksRequest(memory_id=memory_id)),
        "TraverseLinks": (tenant.links.TraverseLinks, pb.TraverseLinksRequest(memory_id=memory_id)),
        "FindPaths": (
            tenant.links.FindPaths,
            pb.FindPathsRequest(from_memory_id=memory_id, to_memory_id=other_id),
        ),
        "GetBlock": (tenant.blocks.GetBlock, blocks_pb2.GetBlockRequest(block_id=block.block.block_id)),
        "ListBlocks": (tenant.blocks.ListBlocks, blocks_pb2.ListBlocksRequest()),
        "CompileBlocks": (tenant.blocks.CompileBlocks, blocks_pb2.CompileBlocksRequest(agent_id="a")),
        "GetSession": (tenant.sessions.GetSession, session_pb2.GetSessionRequest(session_id="s")),
        "ListSessions": (tenant.sessions.ListSessions, session_pb2.ListSessionsRequest()),
        "GetMessage": (
            tenant.sessions.GetMessage,
            session_pb2.GetMessageRequest(message_id=response.messages[0].message_id),
        ),
        "ListMessages": (tenant.sessions.ListMessages, session_pb2.ListMessagesRequest(session_id="s")),
        "SearchMessages": (tenant.sessions.SearchMessages, session_pb2.SearchMessagesRequest(query="tea")),
        "GetRecentWindow": (tenant.sessions.GetRecentWindow, session_pb2.GetRecentWindowRequest(session_id="s")),
        "Recall": (tenant.recall.Recall, recall_pb2.RecallRequest(query="tea")),
        "FindSimilar": (tenant.recall.FindSimilar, recall_pb2.FindSimilarRequest(item_id=memory_id)),
        "gateway Recall": (tenant.gateway.Recall, gateway_pb2.RecallRequest(query="tea")),
        "BuildContext": (
            tenant.gateway.BuildContext,
            gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query="tea")),
        ),
    }
    served = {}
    for name, (call, request) in calls.items():
        before = reads("served")
        async with asyncio.timeout(60):
            while reads("served") == before:
                await call(request, metadata=tuple(ANY_AGE.items()))
        served[name] = reads("served") - before

    assert {name.removeprefix("gateway ") for name in calls} == {path.rpartition("/")[2] for path in REPLICA_READS}
    assert all(count >= 1 for count in served.values()), served


async def test_without_its_replica_everything_is_the_primary_s() -> None:
    async with paired() as pair:
        memory_id, _ = await stored(pair, "the last of all")
        await pair.stop_replica()
        before = reads("unavailable")

        assert await is_visible(pair, memory_id, "0")

    assert reads("unavailable") >= before + 1
