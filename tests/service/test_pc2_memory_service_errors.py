"""Errors of port 7140: every message gets a reply with a reason."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zmq
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_expiry import expire
from fix_pc2 import Assistant, assert_healthy, assistant_of

from skein.memory.v1 import memory_pb2 as pb

PORT = 7140
ABOUT_A_MEMORY: list[tuple[str, dict[str, Any]]] = [
    ("get_memory", {}),
    ("get_children", {}),
    ("get_related", {}),
    ("update_memory", {"update_data": {"content": "mine now"}}),
    ("update_memory", {"update_data": {"parent_id": None}}),
    ("delete_memory", {}),
    ("delete_memory", {"cascade": True}),
    ("reinforce_memory", {}),
    ("get_memories_by_group", {}),
    ("add_to_group", {"memory_id": "mem-mine"}),
    ("add_relationship", {"target_id": "mem-mine", "relationship_type": "related"}),
    ("apply_decay", {}),
    ("consolidate_memory", {}),
    ("archive_memory", {}),
    ("add_memory", {"content": "child"}),
]


async def send_action(assistant: Assistant, action: str, **data: Any) -> Any:
    return await assistant.request(action, port=PORT, data=data)


def naming(memory_id: Any) -> dict[str, Any]:
    """Name a memory in every way that the actions have for it."""
    return dict.fromkeys(("memory_id", "parent_id", "group_id", "source_id"), memory_id)


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Assistant]:
    """Run one pc2 for the tests that store nothing that others would meet."""
    tenant = await cluster.new_tenant()
    async with assistant_of({"SKEIN_PC2_API_KEY": tenant.api_key}, patient=True, gateway=cluster.endpoint) as result:
        yield result


@over("memory_id", [None, "", 5, [], {}, "x" * 300, "a\0b", "\ud800", "mem-none"])
async def test_an_id_of_nothing_is_answered(shared: Assistant, memory_id: Any) -> None:
    for action, data in ABOUT_A_MEMORY[:-1]:
        reply = await send_action(shared, action, **{**naming(memory_id), **data})

        assert set(reply) == {"status", "message"}, action
        assert reply["status"] == "error", action
        assert reply["message"], action


@over(
    ("action", "data", "word"),
    [
        ("dance", {}, "Unknown action"),
        ("", {}, "Unknown action"),
        ("add_memory", {}, "content"),
        ("add_memory", {"content": " "}, "content"),
        ("add_memory", {"content": 5}, "content"),
        ("add_memory", {"content": []}, "content"),
        ("add_memory", {"content": {"text": 5}}, "content.text"),
        ("add_memory", {"content": "a\0b"}, "NUL"),
        ("add_memory", {"content": "\ud800"}, "surrogate"),
        ("add_memory", {"content": "x" * 200_000}, "long"),
        ("add_memory", {"content": "a", "memory_type": "no/pe"}, "memory_type"),
        ("add_memory", {"content": "a", "memory_type": 5}, "memory_type"),
        ("add_memory", {"content": "a", "memory_tier": "eternal"}, "memory_tier"),
        ("add_memory", {"content": "a", "memory_tier": 1}, "memory_tier"),
        ("add_memory", {"content": "a", "importance": 1.1}, "importance"),
        ("add_memory", {"content": "a", "importance": True}, "importance"),
        ("add_memory", {"content": "a", "importance": 10**400}, "importance"),
        ("add_memory", {"content": "a", "metadata": []}, "metadata"),
        ("add_memory", {"content": "a", "metadata": {"x": 10**400}}, "metadata"),
        ("add_memory", {"content": "a", "metadata": {"x": "y" * 300_000}}, "metadata"),
        ("add_memory", {"content": "a", "tags": [1]}, "tags"),
        ("add_memory", {"content": "a", "tags": ["x" * 300]}, "tags"),
        ("add_memory", {"content": "a", "ttl": 0}, "ttl"),
        ("add_memory", {"content": "a", "ttl": 1e300}, "ttl"),
        ("add_memory", {"content": "a", "expires_at": "tomorrow"}, "expires_at"),
        ("add_memory", {"content": "a", "expires_at": 1e300}, "expires_at"),
        ("add_memory", {"content": "a", "expires_at": "0001-01-01T00:00:00+23:00"}, "expires_at"),
        ("add_memory", {"content": "a", "parent_id": "mem-none"}, ""),
        ("add_memory", {"content": "a", "parent_id": 5}, "parent_id"),
        ("update_memory", {"memory_id": "m"}, "update_data"),
        ("update_memory", {"memory_id": "m", "update_data": {"unknown": 1}}, "update_data"),
        ("update_memory", {"memory_id": "m", "update_data": []}, "update_data"),
        ("update_memory", {"memory_id": "m", "update_data": {"content": None}}, "content"),
        ("delete_memory", {"memory_id": "m", "cascade": "yes"}, "cascade"),
        ("reinforce_memory", {"memory_id": "m", "reinforcement_factor": 0.5}, "reinforcement_factor"),
        ("reinforce_memory", {"memory_id": "m", "reinforcement_factor": "x"}, "reinforcement_factor"),
        ("add_relationship", {"source_id": "m", "target_id": "n"}, "relationship_type"),
        ("add_relationship", {"source_id": "m", "relationship_type": "r"}, "target_id"),
        ("add_relationship", {"source_id": "m", "target_id": "n", "relationship_type": "r", "strength": 2}, "strength"),
        ("search_memory", {}, "query"),
        ("search_memory", {"query": 5}, "query"),
        ("search_memory", {"query": "a", "limit": 0}, "limit"),
        ("search_memory", {"query": "a", "limit": "all"}, "limit"),
        ("search_memory", {"query": "a", "memory_type": "no/pe"}, "memory_type"),
        ("search_memory", {"query": "x" * 20_000}, "query"),
        ("semantic_search", {"query": " "}, "query"),
        ("semantic_search", {"query": "a", "k": -1}, "k "),
        ("create_context_group", {}, "name"),
        ("create_context_group", {"name": "x" * 2000}, "title"),
        ("batch_add_memories", {}, "memories"),
        ("batch_add_memories", {"memories": "x"}, "memories"),
        ("batch_add_memories", {"memories": [{}] * 501}, "500"),
        ("batch_get_memories", {"memory_ids": "x"}, "memory_ids"),
        ("batch_get_memories", {"memory_ids": ["x"] * 201}, "200"),
        ("create_session", {"user_id": 5}, "user_id"),
        ("add_memory", {"content": "a", "importance_score": 2}, "importance_score"),
        ("add_memory", {"content": "a", "user_id": 5}, "user_id"),
        ("get_all_memories_for_lifecycle", {"limit": 0}, "limit"),
        ("get_memories_for_consolidation", {"memory_tier": "eternal"}, "memory_tier"),
        ("get_memories_for_consolidation", {"min_age_hours": -1}, "min_age_hours"),
        ("get_memories_for_consolidation", {"max_importance": 2}, "max_importance"),
        ("get_memories_for_cleanup", {"min_age_days": 1e300}, "min_age_days"),
        ("create_context_group", {"name": "g", "group_id": []}, "group_id"),
    ],
)
async def test_an_impossible_request_is_an_error_with_a_reason(
    shared: Assistant, action: str, data: dict[str, Any], word: str
) -> None:
    reply = await send_action(shared, action, **data)

    assert set(reply) == {"status", "message"}
    assert reply["status"] == "error"
    assert word in reply["message"]


@pytest.mark.system
async def test_a_memory_related_to_itself_is_refused(assistant: Assistant) -> None:
    memory_id = (await send_action(assistant, "add_memory", content="a"))["memory_id"]

    replies = [
        await send_action(
            assistant, "add_relationship", source_id=memory_id, target_id=memory_id, relationship_type="related"
        ),
        await send_action(assistant, "update_memory", memory_id=memory_id, update_data={"parent_id": memory_id}),
    ]

    assert [reply["status"] for reply in replies] == ["error", "error"]


async def test_an_expired_memory_is_not_found(assistant: Assistant, tenant: Tenant) -> None:
    memory = pb.Memory(content="gone", external_id="mem-gone")
    memory.create_time.FromJsonString("2023-01-01T00:00:00Z")
    await expire(tenant.snapshots, memory)

    reply = await send_action(assistant, "get_memory", memory_id="mem-gone")

    assert reply == {"status": "error", "message": "No such memory is visible to the caller: memory_id mem-gone."}


async def test_a_group_is_no_other_memory(assistant: Assistant) -> None:
    memory_id = (await send_action(assistant, "add_memory", content="a"))["memory_id"]

    reply = await send_action(assistant, "get_memories_by_group", group_id=memory_id)

    assert "no context group" in reply["message"]


@over("where", ["metadata", "content", "update_data"])
@over("depth", [90, 200, 900, 20_000])
async def test_deep_nesting_is_answered(shared: Assistant, where: str, depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    action = "update_memory" if where == "update_data" else "add_memory"
    other_fields = '"content": "x", ' if where == "metadata" else '"memory_id": "m", '
    body = f'{{"action": "{action}", "request_id": "r", "data": {{{other_fields}"{where}": {nested}}}}}'

    reply = await shared.send(PORT, body.encode())

    assert reply["status"] in {"success", "error"}
    if reply["status"] == "success":
        read = await send_action(shared, "get_memory", memory_id=reply["memory_id"])
        assert read["status"] == "success"


@over("body", [b"{", b"\xff\xfe", b"", b"[]", b"null", b'{"action": {}}', b'{"data": {}}'])
async def test_an_invalid_message_is_answered_in_its_framing(shared: Assistant, body: bytes) -> None:
    async with shared.socket(zmq.DEALER, PORT) as peer:
        await peer.send(body)
        plain = await peer.recv_multipart()
        await peer.send_multipart([b"", body])
        delimited = await peer.recv_multipart()

    assert len(plain) == 1
    assert delimited[0] == b""
    for reply in (json.loads(plain[0]), json.loads(delimited[1])):
        assert reply["status"] == "error"


async def test_every_action_is_an_error_within_the_clients_time_when_services_are_down() -> None:
    requests: list[tuple[str, dict[str, Any]]] = [
        *ABOUT_A_MEMORY,
        ("search_memory", {"query": "a"}),
        ("semantic_search", {"query": "a"}),
        ("create_context_group", {"name": "g"}),
        ("batch_add_memories", {"memories": [{"content": "a"}]}),
        ("batch_get_memories", {"memory_ids": ["m"]}),
        ("create_session", {}),
        ("get_all_memories_for_lifecycle", {}),
        ("get_memories_for_consolidation", {}),
        ("get_memories_for_cleanup", {}),
        ("get_memory_system_status", {}),
    ]
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as dedicated:
        replies = [await send_action(dedicated, action, **{**naming("m"), **data}) for action, data in requests]
        health = await dedicated.request("ping", port=PORT)

    assert {reply["status"] for reply in replies} == {"error"}
    assert all("try again" in reply["message"] for reply in replies), replies
    assert_healthy(health)


@pytest.mark.system
async def test_a_gateway_that_never_answers_is_an_error() -> None:
    # The system accepts the connection, and no process reads from it.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway=address) as dedicated:
            # It would not wait any longer.
            reply = await send_action(dedicated, "delete_memory", memory_id="m", cascade=True)

    assert reply["status"] == "error"
