"""Sessions through the orchestrator's ports: under the names that assistants choose."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assistant_of
from google.protobuf import json_format

from skein.session.v1 import session_pb2


def code(reply: Any) -> str:
    """Return the code of a refusal."""
    assert reply["status"] == "error", reply
    return str(reply["error"]["code"])


async def test_a_session_is_created_with_its_fields(assistant: Assistant, tenant: Tenant) -> None:
    metadata = {"device_info": {"name": "kitchen speaker"}, "location": "kitchen", "session_type": "voice"}

    reply = await assistant.request("create_session", payload={"user_id": "ana", "session_metadata": metadata})

    assert set(reply["data"]) == {"session_id", "created_at"}
    assert reply["data"]["session_id"].startswith("session-")
    assert len(reply["data"]["session_id"]) == len("session-") + 16
    session = await tenant.get_session(reply["data"]["session_id"])
    assert (session.subject_id, session.session_type) == ("ana", "voice")
    assert json_format.MessageToDict(session.metadata) == metadata


@pytest.mark.parametrize("place", ["top", "payload"])
async def test_a_caller_chooses_the_id(assistant: Assistant, tenant: Tenant, place: str) -> None:
    session_id = str(uuid4())
    payload: dict[str, Any] = {"user_id": "ana", "session_type": "dictation"}
    if place == "payload":
        reply = await assistant.request("create_session", payload={**payload, "session_id": session_id})
    else:
        reply = await assistant.request("create_session", session_id=session_id, payload=payload)

    assert reply["data"]["session_id"] == session_id
    assert (await tenant.get_session(session_id)).session_type == "dictation"


async def test_a_session_is_there_from_its_first_use(assistant: Assistant, tenant: Tenant) -> None:
    session_id = str(uuid4())

    created = await assistant.request("create", session_id=session_id, payload={"content": {"text": "hello"}})
    opened = await assistant.request(
        "create_session", session_id=session_id, payload={"user_id": "ana", "session_metadata": {"location": "hall"}}
    )
    ended = await assistant.request("end_session", session_id=session_id, payload={"summary": "a greeting"})

    assert created["status"] == opened["status"] == ended["status"] == "success"
    session = await tenant.get_session(session_id)
    assert (session.subject_id, session.metadata["location"], session.summary) == ("ana", "hall", "a greeting")


@pytest.mark.system
async def test_a_session_that_many_use_first_is_opened_once(assistant: Assistant, tenant: Tenant) -> None:
    session_id = str(uuid4())

    replies = await asyncio.gather(
        *(
            assistant.request("create", port=port, session_id=session_id, payload={"content": {"text": f"turn {turn}"}})
            for turn in range(8)
            for port in (5570, 5576)
        ),
        *(assistant.request("create_session", session_id=session_id, payload={"user_id": "ana"}) for _ in range(4)),
    )

    assert {reply["status"] for reply in replies} == {"success"}, replies
    assert (await tenant.get_session(session_id)).subject_id == "ana"


async def test_a_session_opened_again_with_its_request_id_is_the_same(assistant: Assistant) -> None:
    request: dict[str, Any] = {"request_id": "req-1", "payload": {"user_id": "ana"}}

    first = await assistant.request("create_session", **request)
    again = await assistant.request("create_session", **request)
    other = await assistant.request("create_session", request_id="req-2", payload={"user_id": "ana"})

    assert again["data"] == first["data"]
    assert other["data"]["session_id"] != first["data"]["session_id"]


async def test_an_ended_session_says_when_it_ended_and_stays_so(assistant: Assistant, tenant: Tenant) -> None:
    await assistant.request("create_session", session_id="s-1", payload={"user_id": "ana"})

    ended = await assistant.request("end_session", session_id="s-1", payload={"summary": "tea was discussed"})
    again = await assistant.request("end_session", session_id="s-1", payload={"archive": None, "summary": None})
    opened = await assistant.request("create_session", session_id="s-1", payload={"user_id": "ana"})
    remembered = await assistant.request("create", session_id="s-1", payload={"content": {"text": "an afterthought"}})

    assert set(ended["data"]) == {"session_id", "ended_at", "is_archived"}
    assert ended["data"]["ended_at"].endswith("Z")
    assert ended["data"]["is_archived"] is False
    assert again["data"] == ended["data"]
    assert code(opened) == "validation_error"
    assert remembered["status"] == "success"
    assert (await tenant.get_session("s-1")).summary == "tea was discussed"


async def test_a_session_is_hidden_with_archive(assistant: Assistant, tenant: Tenant) -> None:
    await assistant.request("create_session", session_id="s-2", payload={"user_id": "ana"})

    ended = await assistant.request("end_session", session_id=None, payload={"session_id": "s-2", "archive": True})
    again = await assistant.request("end_session", session_id="s-2", payload={"archive": True})

    assert ended["data"]["is_archived"] is True
    assert again["data"] == ended["data"]
    assert (await tenant.get_session("s-2")).state == session_pb2.SESSION_STATE_HIDDEN


async def test_a_session_that_was_deleted_cannot_be_opened_again(assistant: Assistant, tenant: Tenant) -> None:
    await assistant.request("create_session", session_id="s-3", payload={})
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="s-3"))

    assert code(await assistant.request("create_session", session_id="s-3", payload={})) == "session_not_found"
    assert code(await assistant.request("end_session", session_id="s-3", payload={})) == "session_not_found"


@over(
    ("action", "message", "expected"),
    [
        ("end_session", {"session_id": "nobody-opened-it"}, "session_not_found"),
        ("end_session", {"session_id": None}, "validation_error"),
        ("end_session", {"session_id": "s", "payload": {"archive": "yes"}}, "validation_error"),
        ("end_session", {"session_id": "s", "payload": {"summary": 5}}, "validation_error"),
        ("end_session", {"session_id": "s" * 256}, "validation_error"),
        ("create_session", {"session_id": 5}, "validation_error"),
        ("create_session", {"session_id": "s" * 256}, "validation_error"),
        ("create_session", {"payload": {"user_id": ["ana"]}}, "validation_error"),
        ("create_session", {"payload": {"user_id": "a\u0000b"}}, "validation_error"),
        ("create_session", {"payload": {"session_metadata": "kitchen"}}, "validation_error"),
        ("create_session", {"payload": {"session_type": "x" * 101}}, "validation_error"),
        ("create", {"session_id": "s" * 256, "payload": {"content": {"text": "a"}}}, "validation_error"),
        ("create", {"session_id": "a\u0000b", "payload": {"content": {"text": "a"}}}, "validation_error"),
    ],
)
async def test_an_invalid_session_is_rejected(
    assistant: Assistant, action: str, message: dict[str, Any], expected: str
) -> None:
    assert code(await assistant.request(action, **message)) == expected


async def test_sessions_of_two_tenants_may_have_one_name(
    cluster: Cluster, assistant: Assistant, tenant: Tenant, other_tenant: Tenant
) -> None:
    await assistant.request("create_session", session_id="s-4", payload={"user_id": "ana"})
    environment = {"SKEIN_PC2_API_KEY": tenant.api_key, "SKEIN_PC2_API_KEY_5576": other_tenant.api_key}

    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as two:
        missing = await two.request("end_session", port=5576, session_id="s-4", payload={})
        theirs = await two.request("create_session", port=5576, session_id="s-4", payload={"user_id": "bo"})

    assert code(missing) == "session_not_found"
    assert theirs["data"]["session_id"] == "s-4"
    assert (await tenant.get_session("s-4")).subject_id == "ana"
    assert (await other_tenant.get_session("s-4")).subject_id == "bo"
