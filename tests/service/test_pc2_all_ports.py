"""Every port of the assistants answers every message, and peers do not disturb each other."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_pc2 import HEALTH_PORTS, MAIN_PORTS, SESSION, Assistant, DedicatedAssistant, assert_healthy, assistant_of

from skein_kit.host.process import NotReady
from skein_pc2 import service as pc2_service
from skein_pc2.transport.router import GRACE_SECONDS, LONG_REPLY_SECONDS, REPLY_SECONDS

# The most impatient of the deployed clients give up then, and those of the orchestrator.
IMPATIENT_CLIENT_SECONDS, PATIENT_CLIENT_SECONDS = 3.0, 5.0
ORCHESTRATED = {
    "create": {"memory_type": "context", "content": {"text": "a"}},
    "read": {"memory_id": "m"},
    "update": {"memory_id": "m", "priority": 1},
    "delete": {"memory_id": "m"},
    "batch_read": {"memory_ids": ["m"]},
    "search": {"query": "a"},
    "create_session": {"user_id": "ana"},
    "end_session": {"session_id": "s"},
    "bulk_delete": {"filter": {"tags": ["a"]}},
    "summarize": {"memory_type": "conversation"},
    "upsert": {"memory_id": "m", "memory_type": "context", "content": {"text": "a"}},
    "save": {"text": "a"},
}
# Every verb of every dialect; a port refuses those of the others in its own form.
ACTIONS = (
    *ORCHESTRATED,
    *("add_interaction", "get_context", "get_summary", "get_session_id", "record_decision", "add_memory"),
    *("add_error_pattern", "get_error_solution", "update_twin", "get_twin", "delete_twin", "get_all_memories"),
    *("update_memories", "get_memory_stats", "get_memories", "delete_memory", "clear_memories", "clear_session"),
    *("delete_session", "get_memory", "get_children", "add_relationship", "get_related", "search_memory"),
    *("update_memory", "reinforce_memory", "create_context_group", "add_to_group", "get_memories_by_group"),
    *("semantic_search", "batch_add_memories", "batch_get_memories"),
)
COMMANDS = ("TEST_PING", "STORE_MEMORY", "QUERY_MEMORY", "REINFORCE_MEMORY", "GET_MEMORY_STATUS", "SYNC_MEMORIES")
DEEP = b'{"action":' + b"[" * 200_000
HOSTILE = (
    b'{"action": ["create"], "payload": {}}',
    b'{"action": {"create": 1}}',
    b'{"action": null, "command": null}',
    b'{"command": ["TEST_PING"]}',
    b'{"action": "", "command": ""}',
    b'{"action": "\\u0000", "session_id": "\\u0000", "request_id": "\\u0000"}',
    b'{"action": "create", "request_id": {"a": [1]}, "payload": {"content": {"text": "a\\u0000"}}}',
    b'{"action": "read", "request_id": "\\ud800", "payload": {"memory_id": "\\ud800"}}',
    b'{"action": "add_interaction", "session_id": "\\u0000", "type": "code", "content": "\\ud800", "role": "user"}',
    b'{"action": "get_context", "session_id": ["s"], "max_tokens": 1e308}',
    b'{"action": "create", "payload": null}',
    b'{"action": "create", "payload": {"content": {"text": 1e400}}}',
    b'{"action": "create", "action": "create"',
    b"\xef\xbb\xbf{}",
    b"\xc3\x28",
    b"\x00" * 1000,
    b"7",
    b'"create"',
    b"[" + b"{}," * 10_000 + b"{}]",
    DEEP,
    b'{"a":' * 990 + b"1" + b"}" * 990,
    b'{"action": "' + b"x" * 100_000 + b'"}',
    b"1" * 10_000,
    b'{"n": ' + b"1" * 10_000 + b"}",
)


async def conversation(assistant: Assistant, port: int, messages: list[bytes]) -> list[Any]:
    """Send all messages at once over one DEALER; return the replies."""
    async with assistant.socket(zmq.DEALER, port) as peer:
        for message in messages:
            await peer.send(message)
        return [json.loads((await peer.recv_multipart())[-1]) for _ in messages]


@over("port", MAIN_PORTS)
async def test_any_message_gets_an_object_with_a_status(assistant: Assistant, port: int) -> None:
    bare = [json.dumps({"action": action}).encode() for action in ACTIONS]
    commands = [json.dumps({"command": command}).encode() for command in COMMANDS]

    replies = await conversation(assistant, port, [*HOSTILE, *bare, *commands])

    assert all(isinstance(reply, dict) and isinstance(reply["status"], str) for reply in replies)
    assert_healthy(await assistant.send(port, b'{"action": "ping"}'))


@over("port", [*MAIN_PORTS, 5598, *HEALTH_PORTS])
async def test_a_checker_that_asks_by_request_type_reads_success(assistant: Assistant, port: int) -> None:
    document = await assistant.send(port, b'{"request_type": "health_check"}')

    assert_healthy(document, status="success")
    assert document["agent"]


def test_ports_answer_before_their_clients_give_up() -> None:
    assert REPLY_SECONDS + GRACE_SECONDS < IMPATIENT_CLIENT_SECONDS
    assert LONG_REPLY_SECONDS + GRACE_SECONDS < PATIENT_CLIENT_SECONDS


@over("port", MAIN_PORTS)
async def test_every_action_reports_unavailable_services(port: int) -> None:
    payload = {"memory_id": "m", "session_id": "s", "content": "a", "query": "a"}
    messages = [json.dumps({"action": action, "payload": payload, **payload}).encode() for action in ACTIONS]

    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as assistant:
        replies = await conversation(assistant, port, messages)

    assert len(replies) == len(messages)


@pytest.mark.system
@over(
    ("gateway_listens", "code"), [(False, {"storage_error", "search_error"}), (True, {"storage_error", "search_error"})]
)
async def test_every_orchestrator_action_reports_an_unavailable_gateway(
    gateway_listens: bool,  # noqa: FBT001 - one of the two cases.
    code: set[str],
) -> None:
    messages = [
        json.dumps({"action": name, "session_id": "s", "payload": payload}).encode()
        for name, payload in ORCHESTRATED.items()
    ]
    # The system accepts the connection, and no process reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = f"127.0.0.1:{silent.getsockname()[1] if gateway_listens else 1}"
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway=gateway) as assistant:
            replies = await conversation(assistant, 5570, messages)

    assert {reply["error"]["code"] for reply in replies} <= code, replies
    assert {reply["action"] for reply in replies} == set(ORCHESTRATED)


@over("port", [*MAIN_PORTS, *HEALTH_PORTS])
async def test_ten_megabytes_are_answered(assistant: Assistant, port: int) -> None:
    reply = await assistant.send(port, b'{"action": "ping", "x": "' + b"x" * 10_000_000 + b'"}')

    assert reply["status"] in ({"error", "ERROR"} if port in MAIN_PORTS else {"ok"})


async def test_a_peer_without_zeromq_does_not_disturb_others(assistant: Assistant) -> None:
    host, _, port = assistant.ports[5570].rpartition(":")
    for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\x00\x00\x00", b"\x00" * 64, b""):
        for _ in range(10):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(greeting)
            writer.close()
            await writer.wait_closed()

    assert_healthy(await assistant.send(5570, b'{"action": "ping"}'))


@pytest.mark.system
async def test_peers_that_disconnect_before_their_reply_do_not_disturb_others(assistant: Assistant) -> None:
    for number in range(50):
        async with assistant.socket(zmq.DEALER, 5570) as peer:
            peer.setsockopt(zmq.LINGER, 1000)
            await peer.send(
                json.dumps({"action": "create", "payload": {"memory_type": "context", "content": f"{number}"}}).encode()
            )

    memory_id = await assistant.create("said by one who stayed")

    assert (await assistant.request("read", payload={"memory_id": memory_id}))["status"] == "success"


@pytest.mark.system
@pytest.mark.parametrize("port", [5574, 7240])
async def test_messages_sent_before_a_disconnect_take_effect(assistant: Assistant, port: int) -> None:
    ids = [f"left-{port}-{number}" for number in range(20)]
    async with assistant.socket(zmq.DEALER, port) as peer:
        peer.setsockopt(zmq.LINGER, 10_000)
        for memory_id in ids:
            data = {"memory_id": memory_id, "session_id": memory_id, "role": "user", "content": "said in leaving"}
            action = "add_memory" if port == 7240 else "add_interaction"
            await peer.send(json.dumps({"action": action, "data": data}).encode())

    async def is_there(memory_id: str) -> bool:
        if port == 7240:
            reply = await assistant.request("get_memory", port=7140, data={"memory_id": memory_id})
        else:
            reply = await assistant.request("get_context", port=5574, data={"session_id": memory_id})
        return "said in leaving" in json.dumps(reply)

    async with asyncio.timeout(60):
        while not all([await is_there(memory_id) for memory_id in ids]):
            await asyncio.sleep(0.05)


@pytest.mark.system
async def test_one_peer_that_floods_a_port_leaves_room_for_the_others(
    cluster: Cluster, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = {"query": "tea", "search_type": "keyword"}
    message = json.dumps({"action": "search", "session_id": "s", "payload": payload}).encode()
    # Room for few, so that a machine of any speed is through with them in the time of a client.
    monkeypatch.setattr(pc2_service, "MAX_QUEUED_MESSAGES", 40)
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key}
    async with (
        assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant,
        assistant.socket(zmq.DEALER, 5570) as flooding,
    ):
        for _ in range(300):
            await flooding.send(message)

        health = await assistant.request("ping")
        reply = await assistant.request("read", payload={"memory_id": "mem-0"})
        floods = [json.loads(await flooding.recv()) for _ in range(300)]

    assert health["status"] == "ok"
    assert reply["error"]["code"] == "memory_not_found"
    # Each message gets a reply, if only that the queue is full.
    assert {flood["error"]["code"] for flood in floods if flood["status"] == "error"} <= {
        "rate_limit_exceeded",
        "search_error",
    }


async def test_messages_of_a_client_that_never_reads_are_stored(assistant: Assistant) -> None:
    for number in range(5):
        async with assistant.socket(zmq.REQ, 5570) as peer:
            payload = {"memory_type": "conversation", "content": {"text": f"turn {number}"}, "tags": ["said"]}
            await peer.send(json.dumps({"action": "create", "session_id": SESSION, "payload": payload}).encode())
            assert json.loads(await peer.recv())["status"] == "success"

    listed = await assistant.request("batch_read", payload={"filter": {"tags": ["said"]}})

    assert listed["data"]["total_count"] == 5


async def test_a_port_may_have_its_own_api_key(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(f"{other_tenant.api_key}\n")
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_API_KEY_5576_FILE": str(key_file)}

    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        await assistant.running.wait_ready(60)
        memory_id = await assistant.create("of the first tenant")
        own = await assistant.request("read", payload={"memory_id": memory_id})
        other = await assistant.request("read", port=5576, payload={"memory_id": memory_id})

    assert own["status"] == "success"
    assert other["error"]["code"] == "memory_not_found"


@pytest.mark.system
async def test_pc2_is_not_ready_while_the_key_of_one_port_is_refused(cluster: Cluster, tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_API_KEY_5574": "sk_nobody"}

    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as assistant:
        with pytest.raises(NotReady):
            await assistant.running.wait_ready(0.5)
        reply = await assistant.request("read", payload={"memory_id": "m"})

    assert reply["error"]["code"] == "memory_not_found"


async def test_the_ports_are_this_machines_alone(assistant: DedicatedAssistant) -> None:
    assert {address.rpartition(":")[0] for address in assistant.ports.values()} == {"127.0.0.1"}


@pytest.mark.system
async def test_pc2_is_ready_while_the_rows_of_one_port_s_tenant_are_away(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant
) -> None:
    async with cluster.superuser() as connection:
        # As a machine of Citus answers that cannot reach another one.
        await connection.execute(
            """
            CREATE TABLE public.away (tenant_id uuid);
            CREATE FUNCTION public.is_here(one uuid) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
                IF one IN (SELECT tenant_id FROM public.away) THEN RAISE SQLSTATE '08006'; END IF;
                RETURN true; END $$;
            CREATE POLICY away ON auth.api_keys AS RESTRICTIVE USING (public.is_here(tenant_id));
            """
        )
        await connection.execute("INSERT INTO public.away VALUES ($1)", other_tenant.tenant_id)
        try:
            keys = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_API_KEY_5576": other_tenant.api_key}
            async with assistant_of(keys, patient=True, gateway=cluster.endpoint) as assistant:
                await assistant.running.wait_ready(60)
                own_port = await assistant.request("read", payload={"memory_id": "m"})
                other_port = await assistant.send(5576, b"")
            with pytest.raises(NotReady):
                async with assistant_of(
                    {"SKEIN_PC2_API_KEY": other_tenant.api_key}, patient=True, gateway=cluster.endpoint
                ) as assistant:
                    await assistant.running.wait_ready(0.5)
        finally:
            await connection.execute(
                "DROP POLICY away ON auth.api_keys; DROP FUNCTION public.is_here; DROP TABLE public.away"
            )

    assert own_port["error"]["code"] == "memory_not_found"
    assert other_port["status"] == "error"
