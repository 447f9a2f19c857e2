"""One process for each service: deploys under load, and what becomes of calls when a process is killed or frozen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import httpx
import pytest
import zmq
import zmq.asyncio
from fix_cluster import Tenant, fault_of, test_environment
from fix_fleet import HOST, PATIENT, PATIENT_SECONDS, REPLICATED, Fleet, running_fleet, until_answered
from fix_fleet_load import Load
from fix_models import SCAN_NOW
from fix_pc2 import Assistant
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import blocks_pb2, history_pb2
from skein.memory.v1 import memory_pb2 as pb
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import tenancy_pb2
from skein_cluster import registry
from skein_kit.errors import status_reason

pytestmark = pytest.mark.timeout(900)

# Those that callers meet first go last.
ORDER = (*(name for name in REPLICATED if name != "gateway"), "gateway")


GATEWAY, PC2 = "gateway", "pc2"


def health(tenant: Tenant) -> Any:
    """Ask the gateway how it is."""
    return health_pb2_grpc.HealthStub(cast("Any", tenant.channel))


# A service that is frozen: a call that it answers, and something that it has nothing to do with.
FREEZABLE: dict[str, tuple[Callable[..., Awaitable[Any]], Callable[[Tenant, Fleet], Awaitable[Any]]]] = {
    "auth": (
        lambda tenant, **limit: tenant.auth.ListApiKeys(auth_pb2.ListApiKeysRequest(), **limit),
        lambda tenant, _: health(tenant).Check(health_pb2.HealthCheckRequest()),
    ),
    "tenancy": (
        lambda tenant, **limit: tenant.tenancy.ListAgents(tenancy_pb2.ListAgentsRequest(), **limit),
        lambda tenant, _: tenant.memory.ListMemories(pb.ListMemoriesRequest()),
    ),
    "session": (
        lambda tenant, **limit: tenant.sessions.ListSessions(session_pb2.ListSessionsRequest(), **limit),
        lambda tenant, _: tenant.memory.ListMemories(pb.ListMemoriesRequest()),
    ),
    "memory": (
        lambda tenant, **limit: tenant.memory.ListMemories(pb.ListMemoriesRequest(), **limit),
        lambda tenant, _: tenant.sessions.ListSessions(session_pb2.ListSessionsRequest()),
    ),
    "recall": (
        lambda tenant, **limit: tenant.recall.ListEmbeddingModels(recall_pb2.ListEmbeddingModelsRequest(), **limit),
        lambda tenant, _: tenant.memory.ListMemories(pb.ListMemoriesRequest()),
    ),
    GATEWAY: (
        lambda tenant, **limit: tenant.memory.ListMemories(pb.ListMemoriesRequest(), **limit),
        lambda _, fleet: fleet["memory"].wait_ready(),
    ),
}
# What a write waits for, with what it is about.
_BLOCKING = {
    "SELECT FROM memory.memories WHERE memory_id = $1::text::uuid FOR UPDATE": ("memory",),
    "SELECT FROM session.sessions WHERE session_id = $1 FOR UPDATE": ("session",),
    "INSERT INTO memory.external_ids (tenant_id, external_id, memory_id) "
    "SELECT tenant_id, $1, memory_id FROM memory.memories WHERE memory_id = $2::text::uuid": ("taken", "memory"),
}
_COMMITTED = """
    SELECT (SELECT revision = 2 FROM memory.memories WHERE memory_id = $1::text::uuid)
       AND EXISTS (SELECT FROM memory.external_ids WHERE external_id = $2)
       AND EXISTS (SELECT FROM session.messages WHERE session_id = $3)
"""
_JOB_UNDER_WAY = (
    "SELECT EXISTS (SELECT FROM worker.pgqueuer WHERE status = 'picked' AND entrypoint = 'embedding_backlog_scan')"
)
_PENDING = "SELECT count(*) FROM recall.documents WHERE tenant_id = $1 AND pending"
_HOLD_BY_NAME = """
    SELECT FROM memory.memories
    WHERE memory_id = (SELECT memory_id FROM memory.external_ids WHERE external_id = $1) FOR UPDATE
"""
_TOLD = "SELECT content, count(*) FROM memory.memories WHERE content LIKE 'told, part %' GROUP BY 1"


@dataclass
class Held:
    """Memories that somebody else's transaction holds, so that updating them takes as long as the test wants."""

    fleet: Fleet
    tenant: Tenant
    memory_ids: list[str]
    calls: list[asyncio.Task[Any]] = field(default_factory=list)

    def request(self) -> pb.UpdateMemoryRequest:
        """Return an update of the next one of them."""
        memory_id = self.memory_ids.pop()
        request = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, content=f"{memory_id}, updated"))
        request.update_mask.paths.append("content")
        return request

    async def waits(self, call: Awaitable[Any]) -> None:
        """Make a call, and return when it waits for its memory."""
        self.calls.append(asyncio.ensure_future(call))
        await self.fleet.wait_locked(len(self.calls))


@asynccontextmanager
async def held(fleet: Fleet, tenant: Tenant, count: int) -> AsyncIterator[Held]:
    """Hold memories until the block ends."""
    made = await tenant.memory.BatchCreateMemories(
        pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"held {number}") for number in range(count)])
    )
    memory_ids = [memory.memory_id for memory in made.memories]
    async with fleet.superuser() as connection, connection.transaction():
        await connection.execute(
            "SELECT FROM memory.memories WHERE memory_id = ANY($1::text[]::uuid[]) FOR UPDATE", memory_ids
        )
        yield Held(fleet, tenant, memory_ids)


@dataclass
class Rolled:
    """What became of a rolling restart of every service."""

    load: Load
    before: dict[tuple[str, int], int]
    after: dict[tuple[str, int], int]
    codes: dict[str, int] = field(default_factory=dict)
    # What the admin ports of gateway and memory said while calls were in flight.
    said: list[int] = field(default_factory=list)
    # How the calls ended that were in flight there, and the connection of the one over HTTP.
    updated: list[str] = field(default_factory=list)
    connection: str = ""
    # How a stream through the gateway that left off ended.
    stream_reason: str = ""
    changed: list[str] = field(default_factory=list)
    followed: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
async def fleet() -> AsyncIterator[Fleet]:
    """One replica of every service but pc2."""
    async with running_fleet(test_environment()) as found:
        await found.start(*((name, 0) for name in REPLICATED))
        yield found


@pytest.fixture(scope="module")
async def tenant(fleet: Fleet) -> Tenant:
    return await fleet.new_tenant("drained")


async def in_flight(fleet: Fleet, tenant: Tenant, rolled: Rolled, drain: Callable[[], Awaitable[None]]) -> None:
    """Have calls in flight in the memory service's first replica while it leaves off, then let them go on."""
    memory = fleet.replicas["memory", 0]
    async with held(fleet, tenant, 16) as waiting:
        while not await memory.metric("skein_rpc_in_flight{", 'method="UpdateMemory"'):
            await waiting.waits(tenant.memory.UpdateMemory(waiting.request()))
        await drain()
    rolled.updated += [answer.memory.content for answer in await asyncio.gather(*waiting.calls)]


async def at_the_gateway(fleet: Fleet, tenant: Tenant, rolled: Rolled, drain: Callable[[], Awaitable[None]]) -> None:
    """The same at the gateway's first replica, through both of its doors, with a stream open."""
    gateway = fleet.replicas["gateway", 0]
    headers = {"authorization": f"Bearer {tenant.api_key}"}
    async with (
        aio.insecure_channel(gateway.address) as channel,
        httpx.AsyncClient(base_url=f"http://{gateway.http}", headers=headers, timeout=60) as http,
    ):
        there = fleet.as_tenant(tenant.tenant_id, tenant.api_key, channel)
        watching = there.history.StreamChanges(history_pb2.StreamChangesRequest())
        async with held(fleet, tenant, 2) as waiting:
            await waiting.waits(there.memory.UpdateMemory(waiting.request()))
            name = waiting.request().memory.memory_id
            update = {"memory": {"memoryId": name, "content": f"{name}, updated"}, "updateMask": "content"}
            await waiting.waits(http.post("/skein.memory.v1.MemoryService/UpdateMemory", json=update))
            await drain()
        with pytest.raises(aio.AioRpcError) as ended:
            async for _ in watching:
                pass
        grpc_answer, http_answer = await asyncio.gather(*waiting.calls)
        rolled.updated += [grpc_answer.memory.content, json.loads(http_answer.text)["memory"]["content"]]
        rolled.connection = http_answer.headers.get("connection", "")
        status = rpc_status.from_call(ended.value)  # type: ignore[arg-type]  # It reads three methods that both have.
        rolled.stream_reason = "" if status is None else status_reason(status)


def replicated(fleet: Fleet) -> dict[tuple[str, int], int]:
    """Return the processes of those that are restarted: pc2 may run as well by then."""
    return {key: pid for key, pid in fleet.pids.items() if key[0] in REPLICATED}


@pytest.fixture(scope="module")
async def rolled(fleet: Fleet, tenant: Tenant) -> AsyncIterator[Rolled]:
    """Every service twice, and the first replica of each ended in turn, under load."""
    async with fleet.client(tenant, timeout=PATIENT_SECONDS) as client, asyncio.TaskGroup() as listeners:
        load = Load(client, "roll")
        result = Rolled(load, before=replicated(fleet), after={})

        async def watch() -> None:
            async for change in client.stream_changes(entity_type="memory"):
                if change.event_type == "memory_created":
                    result.changed.append(change.entity_id)

        async def follow() -> None:
            async for message in client.follow_session(load.session(0), after_sequence=0):
                result.followed.append(message.sequence)

        await client.sessions.CreateSession(
            session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id=load.session(0)))
        )
        tasks = [listeners.create_task(watch()), listeners.create_task(follow())]
        while not result.changed:
            await client.remember("Somebody listens")
        await fleet.start(*((name, 1) for name in REPLICATED))
        async with load.running():
            await load.further(2)
            for name in ORDER:
                await _roll(fleet, tenant, name, result)
                await load.further(2)
        result.after = replicated(fleet)
        written = {memory.memory_id for write in load.acknowledged for memory in getattr(write.answer, "memories", ())}
        said = [
            write.answer.messages[-1].sequence
            for write in load.acknowledged
            if load.session(0) == getattr(write.request, "session_id", "")
        ]
        async with asyncio.timeout(120):
            while not written <= {*result.changed} or result.followed[-1:] != said[-1:]:
                await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        yield result


async def _roll(fleet: Fleet, tenant: Tenant, name: str, rolled: Rolled) -> None:
    """End the first replica of a service while the second one serves."""
    replica = fleet.replicas[name, 0]

    async def drain() -> None:
        replica.signal(signal.SIGTERM)
        while (status := await replica.readiness()) == 200:
            await asyncio.sleep(0.01)
        rolled.said.append(status)

    if name == "memory":
        await in_flight(fleet, tenant, rolled, drain)
    elif name == "gateway":
        await at_the_gateway(fleet, tenant, rolled, drain)
    else:
        replica.signal(signal.SIGTERM)
    rolled.codes[name] = await fleet.replicas.pop((name, 0)).ended()


async def test_a_rolling_restart_of_every_service_fails_no_call(fleet: Fleet, rolled: Rolled) -> None:
    # Where to look when one failed.
    late = [await each.lines('code="DEADLINE_EXCEEDED"') for each in fleet.replicas.values()]

    assert rolled.load.errors == [], late
    assert set(rolled.codes.values()) == {0}
    assert {name for name, _ in rolled.before} == {name for name, _ in rolled.after}
    assert not {*rolled.before.values()} & {*rolled.after.values()}


async def test_what_was_written_during_a_rolling_restart_is_there_once(rolled: Rolled) -> None:
    load = rolled.load

    held_, told = await load.transcripts()

    assert await load.missing() == []
    assert await load.differing() == []
    assert held_ == told


async def test_calls_in_flight_are_finished_while_the_admin_port_says_no(rolled: Rolled) -> None:
    assert rolled.said == [503, 503]
    assert len(rolled.updated) > 2
    assert all(content.endswith(", updated") for content in rolled.updated)


async def test_an_answer_over_http_ends_its_connection_while_the_gateway_leaves_off(rolled: Rolled) -> None:
    assert rolled.connection == "close"


async def test_a_stream_ends_with_a_status_to_resume_at(rolled: Rolled) -> None:
    assert rolled.stream_reason == "STREAM_ENDED"


async def test_streams_of_the_client_go_on_through_it_all_without_a_gap_or_a_repetition(rolled: Rolled) -> None:
    assert rolled.followed == list(range(1, len(rolled.followed) + 1))
    assert len(rolled.changed) == len({*rolled.changed})


@pytest.fixture(scope="module")
async def victim(fleet: Fleet) -> Tenant:
    """The tenant whose writes are interrupted."""
    return await fleet.new_tenant("interrupted")


@pytest.fixture
async def caller(victim: Tenant) -> Tenant:
    """The same, once its calls are answered again after what the last test did."""
    await until_answered(lambda: victim.memory.ListMemories(pb.ListMemoriesRequest()))
    return victim


@pytest.mark.parametrize("service", REPLICATED)
async def test_a_killed_service_loses_nothing_that_was_acknowledged_and_heals_alone(
    fleet: Fleet, victim: Tenant, service: str
) -> None:
    killed, pids = fleet[service], fleet.pids
    async with fleet.client(victim, retries=PATIENT, timeout=PATIENT_SECONDS) as client:
        load = Load(client, f"{service}-killed", reads=False)

        async with load.running():
            await load.further(3)
            await killed.kill()
            await fleet.start((service, killed.number))
            await load.further(3)

        assert load.errors == []
        assert await load.missing() == []
        assert await load.halves() == []
        assert await load.differing() == []
        held_, told = await load.transcripts()
        assert held_ == told
        recalled = await client.recall(f"written as {load.writes[-1].request.request_id}")
        assert recalled.hits
        assert not recalled.incomplete
    assert {key for key, pid in fleet.pids.items() if pids[key] != pid} == {(service, killed.number)}
    assert all(replica.is_running for replica in fleet.replicas.values())


@pytest.mark.essential
async def test_a_repeated_write_whose_answer_was_lost_after_its_commit_has_one_effect(
    fleet: Fleet, caller: Tenant
) -> None:
    gateway = fleet[GATEWAY]
    session_id, key = "lost", "lost-answer"
    await caller.sessions.CreateSession(
        session_pb2.CreateSessionRequest(session=session_pb2.Session(session_id=session_id))
    )
    created = await caller.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="before")))
    memory_id = created.memory.memory_id
    named = {"memory": memory_id, "session": session_id, "taken": f"{key}-2"}
    batch = pb.BatchCreateMemoriesRequest(
        memories=[pb.Memory(external_id=f"{key}-{number}", content=f"part {number}") for number in range(3)],
        request_id=key,
    )
    said = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="once")
    append = session_pb2.AppendMessagesRequest(session_id=session_id, messages=[said], request_id=key)
    update = pb.UpdateMemoryRequest(memory=pb.Memory(memory_id=memory_id, content="after"), request_id=key)
    update.update_mask.paths.append("content")

    async with fleet.superuser() as connection:
        blocking = connection.transaction()
        await blocking.start()
        # Each write waits for one of these, and the gateway for the answers.
        for statement, values in _BLOCKING.items():
            await connection.execute(statement, *(named[value] for value in values))
        calls = asyncio.gather(
            caller.memory.UpdateMemory(update),
            caller.memory.BatchCreateMemories(batch),
            caller.sessions.AppendMessages(append),
            return_exceptions=True,
        )
        await fleet.wait_locked(3)
        gateway.signal(signal.SIGSTOP)
        await blocking.rollback()
        async with asyncio.timeout(120):
            while not await connection.fetchval(_COMMITTED, memory_id, f"{key}-0", session_id):
                await asyncio.sleep(0.01)
    await gateway.kill()
    lost = await calls
    await fleet.start((GATEWAY, gateway.number))
    async with fleet.client(caller, retries=PATIENT, timeout=PATIENT_SECONDS) as client:
        updated = await client.memories.UpdateMemory(update)
        stored = await client.memories.BatchCreateMemories(batch)
        appended = await client.sessions.AppendMessages(append)
        messages = [message async for message in client.list_messages(session_id)]
        found = await client.memories.BatchGetMemories(
            pb.BatchGetMemoriesRequest(memory_ids=[memory.external_id for memory in batch.memories])
        )

    assert [type(answer) for answer in lost] == 3 * [aio.AioRpcError]
    assert (updated.memory.revision, updated.memory.content) == (2, "after")
    assert [memory.memory_id for memory in stored.memories] == [memory.memory_id for memory in found.memories]
    assert messages == list(appended.messages)


@pytest.mark.parametrize("service", FREEZABLE)
async def test_a_frozen_service_costs_its_callers_their_deadline_and_others_nothing(
    fleet: Fleet, caller: Tenant, service: str
) -> None:
    ask, others = FREEZABLE[service]
    frozen = fleet[service]
    await until_answered(lambda: ask(caller))

    frozen.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(120):
            with pytest.raises(aio.AioRpcError) as refusal:
                await ask(caller, timeout=0.7)
            await others(caller, fleet)
    finally:
        frozen.signal(signal.SIGCONT)

    assert refusal.value.code() in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
    await until_answered(lambda: ask(caller))
    assert frozen.is_running


async def test_a_recall_names_the_branches_of_a_frozen_service_as_late(fleet: Fleet, caller: Tenant) -> None:
    await caller.blocks.CreateBlock(
        blocks_pb2.CreateBlockRequest(block=blocks_pb2.Block(label="note", value="The kettle is blue"))
    )
    question = gateway_pb2.RecallRequest(
        query="kettle", branches=[gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_MESSAGES, gateway_pb2.BRANCH_BLOCKS]
    )
    strict = gateway_pb2.RecallRequest(query="kettle", on_partial=gateway_pb2.ON_PARTIAL_FAIL)
    frozen = fleet["recall"]

    async def ask() -> gateway_pb2.RecallResponse:
        return await caller.gateway.Recall(question, timeout=3)

    async def reason() -> str:
        fault = await fault_of(caller.gateway.Recall(strict, timeout=3))
        assert fault.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        status = rpc_status.from_call(fault)  # type: ignore[arg-type]  # It reads three methods that both have.
        return "" if status is None else status_reason(status)

    async def others_are_there() -> gateway_pb2.RecallResponse:
        # While the machine stands still for a moment, the others are late as well: then they are asked again.
        while True:
            answer: gateway_pb2.RecallResponse = await until_answered(ask)
            if gateway_pb2.BRANCH_BLOCKS not in answer.incomplete:
                return answer

    frozen.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(120):
            partial = await others_are_there()
        async with asyncio.timeout(120):
            while await reason() != "RECALL_TIMED_OUT":
                pass
    finally:
        frozen.signal(signal.SIGCONT)

    states = {status.branch: status.state for status in partial.branches}
    assert list(partial.incomplete) == [gateway_pb2.BRANCH_MEMORIES, gateway_pb2.BRANCH_MESSAGES]
    assert (
        states[gateway_pb2.BRANCH_MEMORIES] == states[gateway_pb2.BRANCH_MESSAGES] == gateway_pb2.BRANCH_STATE_TIMED_OUT
    )
    assert [hit.block.value for hit in partial.hits] == ["The kettle is blue"]
    await until_answered(lambda: caller.gateway.Recall(strict, timeout=3))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_jobs_of_a_worker_that_ends_are_done_by_the_next_one(
    fleet: Fleet, caller: Tenant, number: int
) -> None:
    worker, recall = fleet["worker"], fleet["recall"]
    memories = [pb.Memory(content=f"to be indexed {n} after {number}") for n in range(40)]
    await caller.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories, defer_embedding=True))

    recall.signal(signal.SIGSTOP)
    try:
        async with fleet.superuser() as connection, asyncio.timeout(120):
            while not await connection.fetchval(_JOB_UNDER_WAY):
                await connection.execute(SCAN_NOW)
                await asyncio.sleep(0.01)
        worker.signal(number)
        code = await worker.ended()
    finally:
        recall.signal(signal.SIGCONT)
    await fleet.start(("worker", worker.number))

    assert code == (0 if number == signal.SIGTERM else -number)
    async with fleet.superuser() as connection, asyncio.timeout(200):
        while await connection.fetchval(_PENDING, caller.tenant_id):
            await asyncio.sleep(0.05)


async def test_a_frozen_worker_costs_callers_nothing(fleet: Fleet, caller: Tenant) -> None:
    worker = fleet["worker"]

    worker.signal(signal.SIGSTOP)
    try:
        await caller.memory.CreateMemory(pb.CreateMemoryRequest(memory=pb.Memory(content="Nobody sweeps")))
        await caller.gateway.Recall(gateway_pb2.RecallRequest(query="sweeps"))
    finally:
        worker.signal(signal.SIGCONT)

    await worker.wait_ready()


@pytest.fixture(scope="module")
async def assistant(fleet: Fleet) -> AsyncIterator[Assistant]:
    """An assistant before a pc2 that acts as a tenant of its own."""
    fleet.settings["SKEIN_PC2_API_KEY"] = (await fleet.new_tenant("assisted")).api_key
    await fleet.start((PC2, 0))
    context = zmq.asyncio.Context()
    ports = {port: f"{HOST}:{fleet.ports[f'pc2:{port}']}" for port in registry.PC2_PORTS}
    try:
        yield Assistant(context, ports)
    finally:
        context.term()


async def test_pc2_answers_what_it_has_taken_before_it_ends(fleet: Fleet, assistant: Assistant) -> None:
    memory_id = await assistant.create("before")
    pc2 = fleet[PC2]

    async with fleet.superuser() as connection, connection.transaction():
        await connection.execute(_HOLD_BY_NAME, memory_id)
        change = {"memory_id": memory_id, "content": {"text": "after"}}
        asking = asyncio.create_task(assistant.request("update", payload=change))
        await fleet.wait_locked(1)
        pc2.signal(signal.SIGTERM)
        while await pc2.readiness() == 200:
            await asyncio.sleep(0.01)
    answer, code = await asking, await pc2.ended()
    await fleet.start((PC2, 0))
    read = await assistant.request("read", payload={"memory_id": memory_id})

    assert (answer["status"], code) == ("success", 0)
    assert "after" in json.dumps(read["data"])


async def test_a_frozen_pc2_keeps_assistants_waiting_and_then_answers(fleet: Fleet, assistant: Assistant) -> None:
    memory_id = await assistant.create("while it stands still")

    fleet[PC2].signal(signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await assistant.request("read", payload={"memory_id": memory_id})
    finally:
        fleet[PC2].signal(signal.SIGCONT)

    read = await assistant.request("read", payload={"memory_id": memory_id})
    assert read["status"] == "success"


@pytest.mark.essential
async def test_what_assistants_repeat_after_pc2_was_killed_is_there_once(fleet: Fleet, assistant: Assistant) -> None:
    pc2 = fleet[PC2]
    stored: dict[str, str] = {}

    async def store(number: int) -> None:
        payload = {"content": {"text": f"told, part {number}"}}
        while f"told-{number}" not in stored:
            with contextlib.suppress(zmq.Again, TimeoutError):
                async with asyncio.timeout(3):
                    answer = await assistant.request("create", request_id=f"told-{number}", payload=payload)
                if answer["status"] == "success":
                    stored[f"told-{number}"] = answer["data"]["memory_id"]

    async with asyncio.timeout(200), asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(store(number))
        while not stored:
            await asyncio.sleep(0)
        await pc2.kill()
        await fleet.start((PC2, 0))

    async with fleet.superuser() as connection:
        counts = await connection.fetch(_TOLD)
    assert len({*stored.values()}) == 40
    assert {row["count"] for row in counts} == {1}
    assert len(counts) == 40
