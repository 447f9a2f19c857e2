"""Port 5596 as the Unified Memory Reasoning Agent: messages of sessions, and errors for invalid input."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
import zmq
from fix_catalogue import over
from fix_cluster import Cluster, Tenant
from fix_pc2 import Assistant, assert_healthy, assistant_of, error_reply

from skein.session.v1 import archives_pb2, session_pb2
from skein.tenancy.v1 import limits_pb2
from skein_pc2.reasoning.records.agent_request import UNKNOWN_ACTION
from skein_pc2.reasoning.records.record_values import MISSING_FIELDS

PORT = 5596
INTERACTION = {"session_id": "s1", "interaction_type": "user_query", "content": "Where is my tea?"}


async def send_message(assistant: Assistant, **message: Any) -> Any:
    """Send one message and return its reply."""
    return await assistant.send(PORT, json.dumps(message).encode())


async def send_action(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send one message with an action and return its reply."""
    return await send_message(assistant, action=action, **fields)


async def summary(assistant: Assistant, session_id: str, **fields: Any) -> str:
    """Return the summary of a session."""
    reply = await send_action(assistant, "get_summary", session_id=session_id, **fields)
    assert reply["status"] == "ok"
    return str(reply["summary"])


async def stored_messages(tenant: Tenant, session_id: str) -> list[session_pb2.Message]:
    """Read a session as a typed client does."""
    request = session_pb2.ListMessagesRequest(session_id=session_id)
    return list((await tenant.sessions.ListMessages(request)).messages)


async def test_an_interaction_is_a_message_of_its_session(assistant: Assistant, tenant: Tenant) -> None:
    reply = await send_action(assistant, "add_interaction", **INTERACTION, metadata={"room": "kitchen"}, unknown=1)

    messages = await stored_messages(tenant, "s1")
    assert reply == {"status": "ok"}
    assert [(message.role, message.content) for message in messages] == [
        (session_pb2.MESSAGE_ROLE_USER, "Where is my tea?")
    ]
    assert messages[0].metadata["room"] == "kitchen"
    assert messages[0].metadata["interaction_type"] == "user_query"


@pytest.mark.parametrize(
    ("interaction_type", "role"),
    [
        ("user_query", session_pb2.MESSAGE_ROLE_USER),
        ("system_response", session_pb2.MESSAGE_ROLE_ASSISTANT),
        ("code", session_pb2.MESSAGE_ROLE_ASSISTANT),
        ("error", session_pb2.MESSAGE_ROLE_TOOL),
        ("decision", session_pb2.MESSAGE_ROLE_ASSISTANT),
        ("gesture", session_pb2.MESSAGE_ROLE_SYSTEM),
    ],
)
async def test_each_type_of_interaction_has_its_role(
    assistant: Assistant, tenant: Tenant, interaction_type: str, role: session_pb2.MessageRole
) -> None:
    # The older clients call it `type`.
    reply = await send_action(assistant, "add_interaction", session_id="s", type=interaction_type, content="a")

    assert reply == {"status": "ok"}
    assert [message.role for message in await stored_messages(tenant, "s")] == [role]


@over("field", ["session_id", "interaction_type", "content"])
async def test_an_interaction_without_a_field_is_missing_it(assistant: Assistant, field: str) -> None:
    for nothing in ({}, {field: None}, {field: ""}, {field: " "}):
        other_fields = {name: value for name, value in INTERACTION.items() if name != field}
        reply = await send_action(assistant, "add_interaction", **other_fields, **nothing)

        assert reply == error_reply(MISSING_FIELDS)


async def test_two_first_messages_at_once_are_both_in_the_session(assistant: Assistant, tenant: Tenant) -> None:
    replies = await asyncio.gather(
        *(
            send_action(assistant, "add_interaction", session_id="race", type="user_query", content=str(number))
            for number in range(10)
        )
    )

    assert replies == [{"status": "ok"}] * 10
    assert {message.content for message in await stored_messages(tenant, "race")} == {
        str(number) for number in range(10)
    }


@pytest.mark.system
async def test_a_context_tells_the_conversation_errors_code_and_decisions(assistant: Assistant) -> None:
    for interaction_type, content in (
        ("user_query", "Build it"),
        ("code", "print(1)"),
        ("error", "SyntaxError: no"),
        ("error", "nothing works"),
        ("system_response", "Built"),
        ("decision", "ship on Friday"),
    ):
        await send_action(
            assistant, "add_interaction", session_id="s", interaction_type=interaction_type, content=content
        )
    await send_action(assistant, "record_decision", session_id="s", decision="use Postgres")

    reply = await send_action(assistant, "get_context", session_id="s")

    context = reply["context"]
    assert reply["status"] == "ok"
    assert set(context) == {
        "last_updated",
        "conversation_summary",
        "errors_encountered",
        "code_context",
        "key_decisions",
    }
    assert context["conversation_summary"] == "User: Build it\nAssistant: Built"
    assert context["errors_encountered"] == [
        {"type": "SyntaxError", "message": "SyntaxError: no"},
        {"type": "unknown", "message": "nothing works"},
    ]
    assert context["code_context"] == "print(1)"
    assert [decision["decision"] for decision in context["key_decisions"]] == ["ship on Friday", "use Postgres"]
    assert all(decision["timestamp"].endswith("Z") for decision in context["key_decisions"])
    assert context["last_updated"].endswith("Z")
    # One version of the client reads it under another name.
    assert reply["summary"] == context
    assert (await summary(assistant, "s")).splitlines() == [
        "User: Build it",
        "Code: print(1)",
        "Error: SyntaxError: no",
        "Error: nothing works",
        "Assistant: Built",
        "Decision: ship on Friday",
        "Decision: use Postgres",
    ]


async def test_a_context_of_nothing_is_empty(assistant: Assistant, tenant: Tenant) -> None:
    reply = await send_action(assistant, "get_context", session_id="nobody")

    nothing: dict[str, Any] = {
        "last_updated": None,
        "conversation_summary": "",
        "errors_encountered": [],
        "code_context": "",
        "key_decisions": [],
    }
    assert reply == {"status": "ok", "context": nothing, "summary": nothing}
    listed = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest())
    assert not listed.sessions


async def test_a_context_without_a_session_id_is_refused(assistant: Assistant) -> None:
    assert await send_action(assistant, "get_context") == error_reply("Missing session_id")


@pytest.mark.parametrize("max_tokens", [0, 1, 5, 20, 100])
async def test_a_context_keeps_the_newest_and_its_budget(assistant: Assistant, tenant: Tenant, max_tokens: int) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"number {number} of them")
        for number in range(100)
    ]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)

    reply = await send_action(assistant, "get_context", session_id="s", max_tokens=max_tokens)
    text = await summary(assistant, "s", max_tokens=max_tokens)

    assert len(text) <= 4 * max_tokens
    assert len(reply["context"]["conversation_summary"]) <= 4 * max_tokens
    if max_tokens >= 20:
        assert text.splitlines()[-1] == "User: number 99 of them"
        # Another line would not have fit.
        assert len(text) + len("\nUser: number 90 of them") > 4 * max_tokens


async def test_messages_of_a_typed_client_are_in_the_context(assistant: Assistant, tenant: Tenant) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="typed"),
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, name="Jarvis", content="answered"),
    ]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    author = (await tenant.sessions.AppendMessages(request)).messages[0].created_by

    assert await summary(assistant, "s") == f"User: typed\nJarvis ({author}): answered"


@pytest.mark.system
async def test_the_session_summary_replaces_messages_that_do_not_fit(assistant: Assistant, tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="word " * 20) for _ in range(10)]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)
    update = session_pb2.UpdateSessionRequest(session=session_pb2.Session(session_id="s", summary="Ana wants tea"))
    update.update_mask.paths.append("summary")
    await tenant.sessions.UpdateSession(update)

    short = await summary(assistant, "s", max_tokens=100)
    whole = await summary(assistant, "s")

    assert short.startswith("| Ana wants tea\nUser: word")
    assert "Ana wants tea" not in whole


async def test_a_session_is_named_by_person_and_project_or_day(assistant: Assistant, tenant: Tenant) -> None:
    before = datetime.now(UTC).date()
    project = await send_action(assistant, "get_session_id", user_id="ana", project="boat")
    day = await send_action(assistant, "get_session_id", user_id="ana")
    after = datetime.now(UTC).date()

    assert project == {"status": "ok", "session_id": "ana_boat"}
    assert day["session_id"] in {f"ana_{before}", f"ana_{after}"}
    assert (await send_action(assistant, "get_session_id"))["status"] == "error"

    added = await send_action(
        assistant, "add_interaction", user_id="ana", project="boat", type="user_query", content="paint"
    )
    summary = await send_action(assistant, "get_summary", user_id="ana", project="boat")

    messages = await stored_messages(tenant, "ana_boat")
    assert added == {"status": "ok"}
    assert [(message.content, message.subject_id) for message in messages] == [("paint", "ana")]
    assert summary == {"status": "ok", "summary": "User: paint"}
    assert await send_action(assistant, "get_summary", user_id="ana", project="boat", max_tokens=0) == {
        "status": "ok",
        "summary": "",
    }
    assert (await send_action(assistant, "get_summary"))["status"] == "error"


async def test_a_decision_needs_both_fields(assistant: Assistant) -> None:
    assert await send_action(assistant, "record_decision", session_id="s") == error_reply(MISSING_FIELDS)
    assert await send_action(assistant, "record_decision", decision="d") == error_reply(MISSING_FIELDS)


async def test_an_ended_session_is_read_and_takes_no_messages(assistant: Assistant, tenant: Tenant) -> None:
    await send_action(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id="s1"))

    added = await send_action(assistant, "add_interaction", **INTERACTION)
    text = await summary(assistant, "s1")
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="s1"))
    hidden = await send_action(assistant, "record_decision", session_id="s1", decision="d")

    assert (added["status"], "ended" in added["reason"]) == ("error", True)
    assert text == "User: Where is my tea?"
    assert (hidden["status"], "hidden" in hidden["reason"]) == ("error", True)


async def test_a_session_in_cold_storage_is_read(assistant: Assistant, tenant: Tenant) -> None:
    await send_action(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="s1"))
    await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="s1"))

    assert await summary(assistant, "s1") == "User: Where is my tea?"
    assert (await send_action(assistant, "get_all_memories"))["status"] == "success"


async def test_a_repeated_message_is_stored_once(assistant: Assistant, tenant: Tenant) -> None:
    for _ in range(2):
        assert (await send_action(assistant, "add_interaction", **INTERACTION, request_id="r1"))["status"] == "ok"

    assert len(await stored_messages(tenant, "s1")) == 1


UNKNOWN_ACTIONS: list[Any] = ["dance", "", 7, [], {}, True]


async def test_an_unknown_action_is_refused(assistant: Assistant) -> None:
    for action in UNKNOWN_ACTIONS:
        reply = await send_message(assistant, action=action, session_id="s")

        assert reply == error_reply(UNKNOWN_ACTION)


async def test_a_message_without_an_action_gets_an_error_with_all_keys(assistant: Assistant) -> None:
    assert await send_message(assistant) == error_reply(UNKNOWN_ACTION)


DEEP: Any = "x"
for _ in range(60):
    DEEP = {"a": DEEP}


UNSTORABLE_INTERACTIONS: list[Any] = [
    {"session_id": 5},
    {"session_id": ["s"]},
    {"session_id": "x" * 256},
    {"session_id": "a\0b"},
    {"session_id": "\ud800"},
    {"content": 5},
    {"content": ["a"]},
    {"content": "a\0b"},
    {"content": "half \ud83d"},
    {"content": "x" * 100_001},
    {"interaction_type": 7},
    {"interaction_type": "a\0"},
    {"metadata": "text"},
    {"metadata": {"a": "\0"}},
    {"metadata": {"\ud800": 1}},
    {"metadata": DEEP},
    {"metadata": {"long": "x" * 300_000}},
    {"user_id": 5},
    {"user_id": "x" * 256},
]


async def test_an_interaction_that_cannot_be_stored_is_refused(assistant: Assistant) -> None:
    for fields in UNSTORABLE_INTERACTIONS:
        reply = await send_action(assistant, "add_interaction", **{**INTERACTION, **fields})

        assert reply["status"] == "error"
        assert reply["reason"], reply
        assert "Skein failed" not in reply["reason"]


NO_BUDGETS: list[Any] = [-1, "many", 1.5, True, []]


async def test_a_budget_that_is_no_number_is_refused(assistant: Assistant) -> None:
    for max_tokens in NO_BUDGETS:
        assert (await send_action(assistant, "get_context", session_id="s", max_tokens=max_tokens))["status"] == "error"


async def test_a_budget_beyond_all_reason_is_as_good_as_none(assistant: Assistant) -> None:
    await send_action(assistant, "add_interaction", **INTERACTION)

    assert await summary(assistant, "s1", max_tokens=10**30) == "User: Where is my tea?"


async def test_every_script_is_kept_as_it_is(assistant: Assistant) -> None:
    text = "お茶はどこ? ☕ Ünïcödé 🫖"
    await send_action(assistant, "add_interaction", session_id="日本", type="user_query", content=text)

    assert await summary(assistant, "日本") == f"User: {text}"


@over(
    ("body", "reply"),
    [
        (b"{", error_reply("Invalid JSON in message")),
        (b'{"command": "TEST_PING", ', error_reply("Invalid JSON in message", status="ERROR")),
        (
            b'{"action": NaN}',
            error_reply("Invalid JSON in message"),
        ),
    ],
)
async def test_invalid_json_gets_an_error_in_its_dialect(
    assistant: Assistant, body: bytes, reply: dict[str, Any]
) -> None:
    assert await assistant.send(PORT, body) == reply


WHATEVER: list[Any] = [
    b"",
    b"\xff\xfe",
    b"[]",
    b"null",
    b"7",
    b'"text"',
    b"[" * 100_000,
    b'{"action":' * 50_000,
    b'{"command":"TEST_PING","data":' + b"[" * 500 + b"]" * 500 + b"}",
    json.dumps({"action": "add_memory", "memory": "x" * 10_000_000}).encode(),
    json.dumps({"action": "add_memory", "memory": [[]] * 1_000_000}, separators=(",", ":")).encode(),
    json.dumps({"action": "update_twin", "twin_data": {str(number): 1 for number in range(100_000)}}).encode(),
    json.dumps({"command": "QUERY_MEMORY", "query": {"ids": ["x"] * 500_000}}).encode(),
]


@pytest.mark.system
async def test_any_message_is_answered(assistant: Assistant) -> None:
    for body in WHATEVER:
        reply = await assistant.send(PORT, body)

        assert reply["status"].lower() == "error"
        assert reply.get("reason") or reply.get("message")


async def test_health_is_answered_in_either_dialect(assistant: Assistant) -> None:
    for action in ("health_check", "ping", "health"):
        assert_healthy(await send_action(assistant, action))


async def test_both_framings_are_answered_in_their_own(assistant: Assistant) -> None:
    body = json.dumps({"action": "get_session_id", "user_id": "ana", "project": "p"}).encode()
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        await peer.send(body)
        plain = await peer.recv_multipart()
        await peer.send_multipart([b"", body])
        delimited = await peer.recv_multipart()

    assert json.loads(plain[0]) == {"status": "ok", "session_id": "ana_p"}
    assert (delimited[0], json.loads(delimited[1])) == (b"", json.loads(plain[0]))


@pytest.mark.system
async def test_fire_and_forget_clients_fill_a_session(assistant: Assistant, tenant: Tenant) -> None:
    """Write as the deployed agents do: one socket for each message, and the reply is not read."""
    contents = [f"turn {number}" for number in range(10)]
    for content in contents:
        async with assistant.socket(zmq.REQ, PORT) as peer:
            await peer.send_json({"action": "add_interaction", "session_id": "f", "type": "code", "content": content})
            await peer.recv_json()

    assert [message.content for message in await stored_messages(tenant, "f")] == contents


async def test_messages_sent_without_waiting_stand_in_their_order(assistant: Assistant, tenant: Tenant) -> None:
    contents = [f"turn {number}" for number in range(12)]
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        for content in contents:
            await peer.send_json({"action": "add_interaction", "session_id": "d", "type": "code", "content": content})
        replies = [json.loads((await peer.recv_multipart())[0]) for _ in contents]

    assert replies == [{"status": "ok"}] * len(contents)
    assert [message.content for message in await stored_messages(tenant, "d")] == contents


async def test_a_dual_writer_names_sessions_by_its_own_uuids(assistant: Assistant, tenant: Tenant) -> None:
    """Write as a client with its own store does: a new uuid for each conversation, and every turn is sent."""
    contents_by_session = {
        str(uuid.uuid4()): [f"turn {number} of {place}" for number in range(3)] for place in range(3)
    }
    for session_id, contents in contents_by_session.items():
        for content in contents:
            reply = await send_action(
                assistant, "add_interaction", session_id=session_id, interaction_type="user_query", content=content
            )
            assert reply == {"status": "ok"}

    for session_id, contents in contents_by_session.items():
        assert [message.content for message in await stored_messages(tenant, session_id)] == contents


async def test_a_deleted_session_is_an_error(assistant: Assistant, tenant: Tenant) -> None:
    await send_action(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="s1"))

    reply = await send_action(assistant, "add_interaction", **INTERACTION)

    assert (reply["status"], "deleted" in reply["reason"]) == ("error", True)
    assert await summary(assistant, "s1") == ""


async def test_a_quota_that_is_used_up_is_an_error_of_each_dialect(
    cluster: Cluster, assistant: Assistant, tenant: Tenant
) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(memories=1))
    quota.update_mask.paths.append("memories")
    await acting.tenancy.UpdateQuota(quota)
    await send_action(assistant, "add_memory", content="the only one")

    replies = [
        await send_action(assistant, "add_memory", content="one more"),
        await send_action(assistant, "add_memory", memory="one more"),
        await send_message(assistant, command="STORE_MEMORY", data={"content": "one more"}),
        await send_message(assistant, coordinate_with="episodic", operation="store", data={"content": "one more"}),
    ]

    assert [reply["status"] for reply in replies] == ["error", "error", "ERROR", "error"]
    assert all("quota" in (reply.get("reason") or reply["message"]) for reply in replies), replies


async def test_a_disconnect_in_the_middle_does_not_disturb_others(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        for number in range(20):
            await peer.send_json({**INTERACTION, "action": "add_interaction", "content": str(number)})

    assert await send_action(assistant, "add_interaction", **INTERACTION) == {"status": "ok"}


EVERY_ACTION: list[dict[str, Any]] = [
    {"action": "add_interaction", **INTERACTION},
    {"action": "get_context", "session_id": "s"},
    {"action": "get_summary", "user_id": "ana"},
    {"action": "get_context_summary", "user_id": "ana"},
    {"action": "get_recent_context"},
    {"action": "clear_session", "session_id": "s"},
    {"action": "add_reminder", "reminder": {"message": "m"}},
    {"action": "list_reminders"},
    {"action": "delete_reminder", "index": 0},
    {"action": "delete_all_reminders"},
    {"action": "get_profile"},
    {"action": "update_profile", "updates": {"name": "Ana"}},
    {"action": "get_memory"},
    {"action": "search_memory", "keyword": "tea"},
    {"action": "add_context", "context": "c"},
    {"action": "clear_context"},
    {"action": "record_decision", "session_id": "s", "decision": "d"},
    {"action": "add_memory", "content": "c"},
    {"action": "add_error_pattern", "error_type": "t", "pattern": "p", "solution": "s"},
    {"action": "get_error_solution", "error_message": "m"},
    {"action": "update_twin", "twin_data": {"a": 1}},
    {"action": "get_twin"},
    {"action": "delete_twin"},
    {"action": "get_all_memories"},
    {"action": "update_memories", "memories": [{"content": "c"}]},
    {"action": "get_memory_stats"},
    {"coordinate_with": "episodic", "operation": "store", "data": {"content": "c"}},
    {"command": "STORE_MEMORY", "data": {"content": "c"}},
    {"command": "QUERY_MEMORY", "query": {"keywords": ["sky"]}},
    {"command": "REINFORCE_MEMORY", "memory_id": "m"},
    {"command": "GET_MEMORY_STATUS"},
    {"command": "SYNC_MEMORIES", "memories": [{"id": "m", "content": "c"}]},
    {"command": "DELETE_MEMORY", "memory_id": "m"},
    {"action": "add_memory", "memory": 1},
    {"action": "get_memories"},
    {"action": "delete_memory", "memory_id": "m"},
    {"action": "clear_memories"},
]


async def test_services_that_are_down_are_an_error_of_each_dialect() -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk"}, gateway="127.0.0.1:1") as assistant:
        replies = [await send_message(assistant, **message) for message in EVERY_ACTION]
        alive = await send_action(assistant, "get_session_id", user_id="ana", project="p")

    for message, reply in zip(EVERY_ACTION, replies, strict=True):
        if "command" in message:
            assert reply == error_reply(reply["message"], status="ERROR"), message
        else:
            assert reply["status"] == "error", message
            assert "again" in reply["reason"], message
        assert "127.0.0.1" not in json.dumps(reply)
    assert alive == {"status": "ok", "session_id": "ana_p"}


@pytest.mark.system
async def test_a_key_that_is_refused_is_an_error_of_each_dialect(cluster: Cluster) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk_nobody"}, patient=True, gateway=cluster.endpoint) as assistant:
        replies = [await send_message(assistant, **message) for message in EVERY_ACTION]

    assert {reply["status"].lower() for reply in replies} == {"error"}


async def test_no_reply_contains_data_of_another_tenant(
    cluster: Cluster, assistant: Assistant, other_tenant: Tenant
) -> None:
    environment = {"SKEIN_PC2_API_KEY": other_tenant.api_key}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as other:
        await send_action(other, "add_interaction", **{**INTERACTION, "content": "secret of theirs"})
        stored = await send_message(other, command="STORE_MEMORY", data={"content": "secret of theirs"})
        text = await send_action(other, "add_memory", user_id="ana", memory="secret of theirs")
    replies = [
        await send_action(assistant, "get_context", session_id="s1"),
        await send_action(assistant, "get_all_memories"),
        await send_action(assistant, "get_memories", user_id="ana"),
        await send_action(assistant, "delete_memory", user_id="ana", memory_id=text["memory_id"]),
        await send_message(assistant, command="QUERY_MEMORY", query={"id": stored["data"]["memory_id"]}),
        await send_message(assistant, command="QUERY_MEMORY", query={"keywords": ["secret"]}),
        await send_message(assistant, command="DELETE_MEMORY", memory_id=stored["data"]["memory_id"]),
    ]

    assert "secret of theirs" not in json.dumps(replies)
    assert replies[-1]["status"] == "ERROR"
