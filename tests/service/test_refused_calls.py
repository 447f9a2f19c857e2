"""Denied and malformed calls are in the access log of their caller's tenant, whichever port they came by."""

from __future__ import annotations

import asyncio
import unicodedata
import uuid
from collections.abc import Sequence
from typing import Any

import grpc
import httpx
import pytest
import zmq
from fix_access_log import failed_access, logged_accesses
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_console import BrowserSession
from fix_gateway import gateway_before
from fix_mcp import Mcp
from fix_pc2 import assistant_of
from grpc import aio

from skein.auth.v1 import auth_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2, tenancy_pb2
from skein_kit.access_log.refusals import MAX_SINGLE, Refusal, RefusalRecorder
from skein_kit.calls.call import Call
from skein_kit.errors import PermissionMissing
from skein_kit.identity.identity_token import Caller

DENIED, INVALID = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT
MEMORIES = "/skein.memory.v1.MemoryService"


async def key_with(tenant: Tenant, *permissions: str) -> tuple[str, str]:
    """Return the secret and the principal of a new key."""
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="x", permissions=permissions))
    return key.secret, f"api_key:{key.api_key.api_key_id}"


async def reader_of(cluster: Cluster, tenant: Tenant) -> tuple[Stubs, str]:
    secret, principal = await key_with(tenant, "memory.read")
    return cluster.with_key(secret, **{"skein-agent-id": "maid", "skein-session-id": "pantry"}), principal


@pytest.mark.system
async def test_a_denied_call_is_recorded_with_its_caller_reason_and_memory(cluster: Cluster, tenant: Tenant) -> None:
    reader, principal = await reader_of(cluster, tenant)
    memory_id = str(uuid.uuid4())

    with refused(DENIED, "PERMISSION_MISSING"):
        await reader.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    event = await failed_access(tenant, "DeleteMemory")
    assert (event.error_code, event.error_reason, event.success) == ("PERMISSION_DENIED", "PERMISSION_MISSING", False)
    assert (event.memory_id, event.item_count, event.call_count) == (memory_id, 1, 1)
    assert (event.principal, event.client_address) == (principal, "127.0.0.1")
    assert (event.claimed_agent_id, event.claimed_session_id) == ("maid", "pantry")


@pytest.mark.system
async def test_a_denied_write_keeps_no_word(cluster: Cluster, tenant: Tenant) -> None:
    reader, _ = await reader_of(cluster, tenant)
    memory = memory_pb2.Memory(content="the dentist is on Tuesday", key="dentist")

    with refused(DENIED, "PERMISSION_MISSING"):
        await reader.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    assert "dentist" not in str(await failed_access(tenant, "CreateMemory"))


@pytest.mark.system
async def test_a_denied_call_names_its_person_in_the_form_by_which_a_purge_finds_it(
    cluster: Cluster, tenant: Tenant
) -> None:
    reader, _ = await reader_of(cluster, tenant)
    memory = memory_pb2.Memory(content="x", subject_id=unicodedata.normalize("NFD", "jürgen"))

    with refused(DENIED, "PERMISSION_MISSING"):
        await reader.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))

    assert (await failed_access(tenant, "CreateMemory")).subject_id == "jürgen"


@pytest.mark.system
async def test_a_denied_call_names_the_memories_inside_its_messages(cluster: Cluster, tenant: Tenant) -> None:
    reader, _ = await reader_of(cluster, tenant)
    ids = [str(uuid.uuid4()) for _ in range(3)]
    selection = memory_pb2.MemorySelection(memory_ids=ids)

    with refused(DENIED, "PERMISSION_MISSING"):
        await reader.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    events = await logged_accesses(tenant, lambda found: len(found) == len(ids), failed_only=True)
    assert {event.memory_id for event in events} == set(ids)


@pytest.mark.system
async def test_denied_calls_of_every_service_are_recorded(cluster: Cluster, tenant: Tenant) -> None:
    secret, _ = await key_with(tenant, "subject.read")
    caller = cluster.with_key(secret)
    calls = (
        caller.gateway.Remember(gateway_pb2.RememberRequest(memories=[memory_pb2.Memory(content="x")])),
        caller.gateway.Recall(gateway_pb2.RecallRequest(query="x")),
        caller.recall.Recall(recall_pb2.RecallRequest(query="x")),
        caller.sessions.GetSession(session_pb2.GetSessionRequest(session_id="s1")),
        caller.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest()),
        caller.auth.ListApiKeys(auth_pb2.ListApiKeysRequest()),
        caller.history.ListAccessLog(pb.ListAccessLogRequest()),
    )
    for call in calls:
        with refused(DENIED, "PERMISSION_MISSING"):
            await call

    events = await logged_accesses(tenant, lambda found: len(found) >= len(calls), failed_only=True)
    assert sorted(event.method for event in events) == [
        "GetSession", "ListAccessLog", "ListApiKeys", "Recall", "Recall", "Remember", "UpdatePolicy"
    ]  # fmt: skip
    assert {event.error_code for event in events} == {"PERMISSION_DENIED"}


@pytest.mark.system
async def test_a_denied_stream_is_recorded(cluster: Cluster, tenant: Tenant) -> None:
    reader, _ = await reader_of(cluster, tenant)

    with refused(DENIED, "PERMISSION_MISSING"):
        await anext(aiter(reader.sessions.StreamMessages(session_pb2.StreamMessagesRequest(session_id="s1"))))

    assert (await failed_access(tenant, "StreamMessages")).session_id == "s1"


@pytest.mark.system
async def test_a_malformed_call_is_recorded_once_with_the_memory_that_it_names(tenant: Tenant) -> None:
    memory_id = str(uuid.uuid4())
    change = memory_pb2.Memory(memory_id=memory_id, confidence=7)

    with refused(INVALID, "INVALID_FIELD"):
        await tenant.memory.UpdateMemory(memory_pb2.UpdateMemoryRequest(memory=change))

    event = await failed_access(tenant, "UpdateMemory")
    assert (event.error_code, event.error_reason, event.memory_id) == ("INVALID_ARGUMENT", "INVALID_FIELD", memory_id)


@pytest.mark.system
async def test_a_malformed_call_of_the_gateway_s_own_is_recorded_once(tenant: Tenant) -> None:
    with refused(INVALID, "INVALID_FIELD"):
        await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="x", limit=100_000))

    assert (await failed_access(tenant, "Recall")).error_code == "INVALID_ARGUMENT"


@pytest.mark.system
async def test_what_fails_in_tenancy_is_recorded_though_what_succeeds_is_not(tenant: Tenant) -> None:
    await tenant.tenancy.GetPolicy(subjects_pb2.GetPolicyRequest())
    with refused(grpc.StatusCode.NOT_FOUND, "AGENT_NOT_FOUND"):
        await tenant.tenancy.GetAgent(tenancy_pb2.GetAgentRequest(agent_id="nobody"))

    (event,) = await logged_accesses(tenant, lambda found: len(found) >= 1)
    assert (event.method, event.error_code, event.error_reason) == ("GetAgent", "NOT_FOUND", "AGENT_NOT_FOUND")


@pytest.mark.system
async def test_bytes_that_are_no_message_are_recorded_without_what_they_name(cluster: Cluster, tenant: Tenant) -> None:
    async with aio.insecure_channel(cluster.addresses["gateway"]) as channel:
        raw: Any = channel.unary_unary(f"{MEMORIES}/GetMemory")
        with refused(INVALID, "INVALID_FIELD"):
            await raw(b"\xff\xff\xff", metadata=(("authorization", f"Bearer {tenant.api_key}"),))

    assert (await failed_access(tenant, "GetMemory")).memory_id == ""


async def _post(cluster: Cluster, secret: str, method: str, body: dict[str, Any]) -> int:
    async with httpx.AsyncClient(base_url=f"http://{cluster.addresses['http']}", trust_env=False) as http:
        answer = await http.post(f"{MEMORIES}/{method}", json=body, headers={"authorization": f"Bearer {secret}"})
    return answer.status_code


@pytest.mark.system
async def test_denied_and_malformed_calls_over_http_are_recorded(cluster: Cluster, tenant: Tenant) -> None:
    secret, _ = await key_with(tenant, "memory.read")
    denied, malformed = str(uuid.uuid4()), str(uuid.uuid4())

    denied_status = await _post(cluster, secret, "DeleteMemory", {"memoryId": denied})
    malformed_status = await _post(cluster, secret, "GetMemory", {"memoryId": malformed, "noSuchField": 1})

    assert (denied_status, malformed_status) == (403, 400)
    assert (await failed_access(tenant, "DeleteMemory")).memory_id == denied
    event = await failed_access(tenant, "GetMemory")
    assert (event.memory_id, event.error_reason) == (malformed, "INVALID_FIELD")


@pytest.mark.system
async def test_denied_and_malformed_calls_over_mcp_are_recorded(cluster: Cluster, tenant: Tenant) -> None:
    secret, _ = await key_with(tenant, "memory.read")
    denied, malformed = str(uuid.uuid4()), str(uuid.uuid4())

    async with Mcp.of(cluster.addresses["http"], secret, "?toolsets=all") as mcp:
        reasons = [
            await mcp.refused("forget", memory_ids=[denied]),
            await mcp.refused("get_memory", memory_id=malformed, no_such_argument=1),
            await mcp.refused("list_memory_versions", memory_id=malformed, no_such_argument="x" * 100_000),
        ]

    assert [reason for reason, _ in reasons] == ["PERMISSION_MISSING", "INVALID_FIELD", "INVALID_FIELD"]
    assert (await failed_access(tenant, "DeleteMemories")).memory_id == denied
    assert (await failed_access(tenant, "GetMemory")).memory_id == malformed
    # A large one is recorded without what it names.
    assert (await failed_access(tenant, "ListMemoryVersions")).memory_id == ""


@pytest.mark.system
async def test_a_denied_page_of_the_console_is_recorded(cluster: Cluster, tenant: Tenant) -> None:
    secret, principal = await key_with(tenant, "memory.read")

    async with BrowserSession.of(cluster.addresses["http"]) as web:
        await web.show_key(secret)
        await web.page("keys")

    assert (await failed_access(tenant, "ListApiKeys")).principal == principal


@pytest.mark.system
@pytest.mark.parametrize("port", [5570, 5596, 7140])
async def test_calls_for_an_assistant_have_its_address_its_session_and_its_agent(
    cluster: Cluster, tenant: Tenant, port: int
) -> None:
    secret, _ = await key_with(tenant, "memory.read", "session.read", "recall.read")
    memory = {"session_id": "kitchen", "content": {"text": "x", "source_agent": "Cook"}, "source_agent": "Cook"}
    actions: dict[int, dict[str, Any]] = {
        5570: {"action": "create", "session_id": "kitchen", "payload": {**memory, "memory_type": "conversation"}},
        5596: {"action": "add_memory", "memory": "x", "session_id": "kitchen", "source_agent": "Cook"},
        7140: {"action": "add_memory", "data": {**memory, "content": "x", "memory_type": "episodic"}},
    }
    keys = {"SKEIN_PC2_API_KEY": secret, "SKEIN_PC2_FORWARD_ADDRESSES": "1"}

    async with (
        gateway_before(cluster, tenant, {}, SKEIN_TRUSTED_PROXIES="127.0.0.1") as gateway,
        assistant_of(keys, gateway=gateway.host.addresses["gateway"]) as assistant,
    ):
        with assistant.context.socket(zmq.REQ) as peer:
            # The source address comes before the semicolon.
            peer.connect(f"tcp://127.0.0.2:0;{assistant.ports[port]}")
            await peer.send_json(actions[port])
            reply = await peer.recv_json()

        events = await logged_accesses(tenant, lambda found: len(found) >= 1, failed_only=True)

    assert str(reply["status"]).lower() == "error", reply
    assert {
        (event.error_code, event.client_address, event.claimed_session_id, event.claimed_agent_id) for event in events
    } == {("PERMISSION_DENIED", "127.0.0.2", "kitchen", "Cook")}


@pytest.mark.system
async def test_another_tenant_and_callers_without_a_tenant_leave_nothing_in_a_tenant_s_log(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    with refused(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIAL_MISSING"):
        await cluster.anonymous.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id="m"))
    with refused(INVALID, "INVALID_FIELD"):
        await other_tenant.memory.GetMemory(memory_pb2.GetMemoryRequest())

    await failed_access(other_tenant, "GetMemory")
    assert not (await tenant.history.ListAccessLog(pb.ListAccessLogRequest(failed_only=True))).access_events


async def test_a_flood_of_refused_calls_has_few_events_which_count_all() -> None:
    written: list[Refusal] = []

    async def write(refusals: Sequence[Refusal]) -> None:
        written.extend(refusals)

    caller = Caller(principal="key:1", tenant_id=uuid.uuid4(), permissions=frozenset())
    async with RefusalRecorder(write, count_lost=_none_lost).open() as recorder:
        for method in ("GetMemory", "DeleteMemory"):
            for _ in range(500):
                call = Call(path=f"{MEMORIES}/{method}", metadata={}, deadline=None, peer="")
                call.caller = caller
                await recorder.record(call, PermissionMissing(permission="memory.read"), None)

    assert len(written) == MAX_SINGLE + 2
    assert sum(refusal.count for refusal in written) == 1000


async def test_refused_calls_in_a_deleted_tenant_are_not_written() -> None:
    written: list[Refusal] = []

    async def write(refusals: Sequence[Refusal]) -> None:
        written.extend(refusals)

    caller = Caller(principal="key:1", tenant_id=uuid.uuid4(), permissions=frozenset(), is_tenant_deleted=True)
    async with RefusalRecorder(write, count_lost=_none_lost).open() as recorder:
        call = Call(path=f"{MEMORIES}/GetMemory", metadata={}, deadline=None, peer="")
        call.caller = caller
        await recorder.record(call, PermissionMissing(permission="memory.read"), None)

    assert written == []


async def test_a_counted_refusal_is_written_when_its_window_ends() -> None:
    is_counted = asyncio.Event()

    async def write(refusals: Sequence[Refusal]) -> None:
        if any(refusal.count > 1 for refusal in refusals):
            is_counted.set()

    caller = Caller(principal="key:1", tenant_id=uuid.uuid4(), permissions=frozenset())
    async with RefusalRecorder(write, count_lost=_none_lost, window_seconds=0.01).open() as recorder:
        while not is_counted.is_set():
            for _ in range(MAX_SINGLE + 2):
                call = Call(path=f"{MEMORIES}/GetMemory", metadata={}, deadline=None, peer="")
                call.caller = caller
                await recorder.record(call, PermissionMissing(permission="memory.read"), None)
            await asyncio.sleep(0)


def _none_lost(count: int) -> None:
    pytest.fail(f"{count} refusals were lost")
