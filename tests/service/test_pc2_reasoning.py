"""Port 5596 as the Unified Memory Reasoning Agent: what is said in sessions, and what it makes of bad input."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import zmq
from fix_pc2 import Assistant, assert_healthy, assistant_of, refusal

from skein.session.v1 import archives_pb2, session_pb2
from skein.tenancy.v1 import limits_pb2
from skein_pc2.reasoning.records.agent_request import UNKNOWN_ACTION
from skein_pc2.reasoning.records.record_values import MISSING

if TYPE_CHECKING:
    from fix_cluster import Cluster, Tenant

PORT = 5596
INTERACTION = {"session_id": "s1", "interaction_type": "user_query", "content": "Where is my tea?"}


async def ask(assistant: Assistant, **message: Any) -> Any:
    """Send one message and return its answer."""
    return await assistant.say(PORT, json.dumps(message).encode())


async def act(assistant: Assistant, action: str, **fields: Any) -> Any:
    """Send one message with an action and return its answer."""
    return await ask(assistant, action=action, **fields)


async def summary(assistant: Assistant, session_id: str, **fields: Any) -> str:
    """Return what of a session is told in one text."""
    answer = await act(assistant, "get_summary", session_id=session_id, **fields)
    assert answer["status"] == "ok"
    return str(answer["summary"])


async def list_messages(tenant: Tenant, session_id: str) -> list[session_pb2.Message]:
    """Read a session as a typed client does."""
    request = session_pb2.ListMessagesRequest(session_id=session_id)
    return list((await tenant.sessions.ListMessages(request)).messages)


async def test_an_interaction_is_a_message_of_its_session(assistant: Assistant, tenant: Tenant) -> None:
    answer = await act(assistant, "add_interaction", **INTERACTION, metadata={"room": "kitchen"}, unknown=1)

    messages = await list_messages(tenant, "s1")
    assert answer == {"status": "ok"}
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
    answer = await act(assistant, "add_interaction", session_id="s", type=interaction_type, content="a")

    assert answer == {"status": "ok"}
    assert [message.role for message in await list_messages(tenant, "s")] == [role]


@pytest.mark.parametrize("field", ["session_id", "interaction_type", "content"])
async def test_an_interaction_without_a_field_is_missing_it(assistant: Assistant, field: str) -> None:
    for nothing in ({}, {field: None}, {field: ""}, {field: " "}):
        rest = {name: value for name, value in INTERACTION.items() if name != field}
        answer = await act(assistant, "add_interaction", **rest, **nothing)

        assert answer == refusal(MISSING)


async def test_two_first_messages_at_once_are_both_in_the_session(assistant: Assistant, tenant: Tenant) -> None:
    answers = await asyncio.gather(
        *(
            act(assistant, "add_interaction", session_id="race", type="user_query", content=str(number))
            for number in range(10)
        )
    )

    assert answers == [{"status": "ok"}] * 10
    assert {message.content for message in await list_messages(tenant, "race")} == {str(number) for number in range(10)}


async def test_a_context_tells_the_conversation_errors_code_and_decisions(assistant: Assistant) -> None:
    for interaction_type, content in (
        ("user_query", "Build it"),
        ("code", "print(1)"),
        ("error", "SyntaxError: no"),
        ("error", "nothing works"),
        ("system_response", "Built"),
        ("decision", "ship on Friday"),
    ):
        await act(assistant, "add_interaction", session_id="s", interaction_type=interaction_type, content=content)
    await act(assistant, "record_decision", session_id="s", decision="use Postgres")

    answer = await act(assistant, "get_context", session_id="s")

    context = answer["context"]
    assert answer["status"] == "ok"
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
    assert answer["summary"] == context
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
    answer = await act(assistant, "get_context", session_id="nobody")

    nothing: dict[str, Any] = {
        "last_updated": None,
        "conversation_summary": "",
        "errors_encountered": [],
        "code_context": "",
        "key_decisions": [],
    }
    assert answer == {"status": "ok", "context": nothing, "summary": nothing}
    listed = await tenant.sessions.ListSessions(session_pb2.ListSessionsRequest())
    assert not listed.sessions


async def test_a_context_without_a_session_id_is_refused(assistant: Assistant) -> None:
    assert await act(assistant, "get_context") == refusal("Missing session_id")


@pytest.mark.parametrize("max_tokens", [0, 1, 5, 20, 100])
async def test_a_context_keeps_the_newest_and_its_budget(assistant: Assistant, tenant: Tenant, max_tokens: int) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=f"number {number} of them")
        for number in range(100)
    ]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)

    answer = await act(assistant, "get_context", session_id="s", max_tokens=max_tokens)
    text = await summary(assistant, "s", max_tokens=max_tokens)

    assert len(text) <= 4 * max_tokens
    assert len(answer["context"]["conversation_summary"]) <= 4 * max_tokens
    if max_tokens >= 20:
        assert text.splitlines()[-1] == "User: number 99 of them"
        # Another line would not have had room.
        assert len(text) + len("\nUser: number 90 of them") > 4 * max_tokens


async def test_messages_of_a_typed_client_are_returned_as_well(assistant: Assistant, tenant: Tenant) -> None:
    messages = [
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="typed"),
        session_pb2.Message(role=session_pb2.MESSAGE_ROLE_ASSISTANT, name="Jarvis", content="answered"),
    ]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)

    assert await summary(assistant, "s") == "User: typed\nJarvis: answered"


async def test_the_summary_of_the_session_stands_for_what_is_left_out(assistant: Assistant, tenant: Tenant) -> None:
    messages = [session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="word " * 20) for _ in range(10)]
    request = session_pb2.AppendMessagesRequest(session_id="s", messages=messages, create_session=True)
    await tenant.sessions.AppendMessages(request)
    update = session_pb2.UpdateSessionRequest(session=session_pb2.Session(session_id="s", summary="Ana wants tea"))
    update.update_mask.paths.append("summary")
    await tenant.sessions.UpdateSession(update)

    short = await summary(assistant, "s", max_tokens=100)
    whole = await summary(assistant, "s")

    assert short.startswith("Ana wants tea\nUser: word")
    assert "Ana wants tea" not in whole


async def test_a_session_is_named_by_person_and_project_or_day(assistant: Assistant, tenant: Tenant) -> None:
    before = datetime.now(UTC).date()
    project = await act(assistant, "get_session_id", user_id="ana", project="boat")
    day = await act(assistant, "get_session_id", user_id="ana")
    after = datetime.now(UTC).date()

    assert project == {"status": "ok", "session_id": "ana_boat"}
    assert day["session_id"] in {f"ana_{before}", f"ana_{after}"}
    assert (await act(assistant, "get_session_id"))["status"] == "error"

    added = await act(assistant, "add_interaction", user_id="ana", project="boat", type="user_query", content="paint")
    summary = await act(assistant, "get_summary", user_id="ana", project="boat")

    messages = await list_messages(tenant, "ana_boat")
    assert added == {"status": "ok"}
    assert [(message.content, message.subject_id) for message in messages] == [("paint", "ana")]
    assert summary == {"status": "ok", "summary": "User: paint"}
    assert await act(assistant, "get_summary", user_id="ana", project="boat", max_tokens=0) == {
        "status": "ok",
        "summary": "",
    }
    assert (await act(assistant, "get_summary"))["status"] == "error"


async def test_a_decision_needs_both_fields(assistant: Assistant) -> None:
    assert await act(assistant, "record_decision", session_id="s") == refusal(MISSING)
    assert await act(assistant, "record_decision", decision="d") == refusal(MISSING)


async def test_an_ended_session_is_reported_and_takes_nothing(assistant: Assistant, tenant: Tenant) -> None:
    await act(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.EndSession(session_pb2.EndSessionRequest(session_id="s1"))

    added = await act(assistant, "add_interaction", **INTERACTION)
    summary_answer = await summary(assistant, "s1")
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="s1"))
    hidden = await act(assistant, "record_decision", session_id="s1", decision="d")

    assert (added["status"], "ended" in added["reason"]) == ("error", True)
    assert summary_answer == "User: Where is my tea?"
    assert (hidden["status"], "hidden" in hidden["reason"]) == ("error", True)


async def test_a_session_in_cold_storage_is_reported(assistant: Assistant, tenant: Tenant) -> None:
    await act(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.HideSession(session_pb2.HideSessionRequest(session_id="s1"))
    await tenant.sessions.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="s1"))

    assert await summary(assistant, "s1") == "User: Where is my tea?"
    assert (await act(assistant, "get_all_memories"))["status"] == "success"


async def test_a_message_sent_again_with_its_request_id_is_stored_once(assistant: Assistant, tenant: Tenant) -> None:
    for _ in range(2):
        assert (await act(assistant, "add_interaction", **INTERACTION, request_id="r1"))["status"] == "ok"

    assert len(await list_messages(tenant, "s1")) == 1


UNKNOWN_ACTIONS: list[Any] = ["dance", "", 7, [], {}, True]


async def test_an_unknown_action_is_refused(assistant: Assistant) -> None:
    for action in UNKNOWN_ACTIONS:
        answer = await ask(assistant, action=action, session_id="s")

        assert answer == refusal(UNKNOWN_ACTION)


async def test_a_message_without_a_verb_is_refused_in_the_keys_of_all_dialects(assistant: Assistant) -> None:
    assert await ask(assistant) == refusal(UNKNOWN_ACTION)


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
        answer = await act(assistant, "add_interaction", **{**INTERACTION, **fields})

        assert answer["status"] == "error"
        assert answer["reason"], answer
        assert "Skein failed" not in answer["reason"]


NO_BUDGETS: list[Any] = [-1, "many", 1.5, True, []]


async def test_a_budget_that_is_no_number_is_refused(assistant: Assistant) -> None:
    for max_tokens in NO_BUDGETS:
        assert (await act(assistant, "get_context", session_id="s", max_tokens=max_tokens))["status"] == "error"


async def test_a_budget_beyond_all_reason_is_as_good_as_none(assistant: Assistant) -> None:
    await act(assistant, "add_interaction", **INTERACTION)

    assert await summary(assistant, "s1", max_tokens=10**30) == "User: Where is my tea?"


async def test_every_script_is_kept_as_it_is(assistant: Assistant) -> None:
    text = "お茶はどこ? ☕ Ünïcödé 🫖"
    await act(assistant, "add_interaction", session_id="日本", type="user_query", content=text)

    assert await summary(assistant, "日本") == f"User: {text}"


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"{", refusal("Invalid JSON in message")),
        (b'{"command": "TEST_PING", ', refusal("Invalid JSON in message", status="ERROR")),
        (
            b'{"action": NaN}',
            refusal("Invalid JSON in message"),
        ),
    ],
)
async def test_a_request_that_is_not_json_is_refused_in_its_own_dialect(
    assistant: Assistant, body: bytes, answer: dict[str, Any]
) -> None:
    assert await assistant.say(PORT, body) == answer


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


async def test_whatever_comes_is_answered(assistant: Assistant) -> None:
    for body in WHATEVER:
        answer = await assistant.say(PORT, body)

        assert answer["status"].lower() == "error"
        assert answer.get("reason") or answer.get("message")


async def test_health_is_answered_in_either_dialect(assistant: Assistant) -> None:
    for action in ("health_check", "ping", "health"):
        assert_healthy(await act(assistant, action))


async def test_both_framings_are_answered_in_their_own(assistant: Assistant) -> None:
    body = json.dumps({"action": "get_session_id", "user_id": "ana", "project": "p"}).encode()
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        await peer.send(body)
        plain = await peer.recv_multipart()
        await peer.send_multipart([b"", body])
        delimited = await peer.recv_multipart()

    assert json.loads(plain[0]) == {"status": "ok", "session_id": "ana_p"}
    assert (delimited[0], json.loads(delimited[1])) == (b"", json.loads(plain[0]))


async def test_fire_and_forget_clients_fill_a_session(assistant: Assistant, tenant: Tenant) -> None:
    """The deployed agents open a socket for each message, and do not read the answer."""
    contents = [f"turn {number}" for number in range(10)]
    for content in contents:
        async with assistant.socket(zmq.REQ, PORT) as peer:
            await peer.send_json({"action": "add_interaction", "session_id": "f", "type": "code", "content": content})
            await peer.recv_json()

    assert [message.content for message in await list_messages(tenant, "f")] == contents


async def test_messages_sent_without_waiting_stand_in_their_order(assistant: Assistant, tenant: Tenant) -> None:
    contents = [f"turn {number}" for number in range(12)]
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        for content in contents:
            await peer.send_json({"action": "add_interaction", "session_id": "d", "type": "code", "content": content})
        answers = [json.loads((await peer.recv_multipart())[0]) for _ in contents]

    assert answers == [{"status": "ok"}] * len(contents)
    assert [message.content for message in await list_messages(tenant, "d")] == contents


async def test_a_dual_writer_names_sessions_by_its_own_uuids(assistant: Assistant, tenant: Tenant) -> None:
    """Write as a client does that keeps a store of its own: a new uuid for each conversation, each turn sent along."""
    kept = {str(uuid.uuid4()): [f"turn {number} of {place}" for number in range(3)] for place in range(3)}
    for session_id, contents in kept.items():
        for content in contents:
            answer = await act(
                assistant, "add_interaction", session_id=session_id, interaction_type="user_query", content=content
            )
            assert answer == {"status": "ok"}

    for session_id, contents in kept.items():
        assert [message.content for message in await list_messages(tenant, session_id)] == contents


async def test_a_deleted_session_is_reported_as_deleted(assistant: Assistant, tenant: Tenant) -> None:
    await act(assistant, "add_interaction", **INTERACTION)
    await tenant.sessions.DeleteSession(session_pb2.DeleteSessionRequest(session_id="s1"))

    answer = await act(assistant, "add_interaction", **INTERACTION)

    assert (answer["status"], "deleted" in answer["reason"]) == ("error", True)
    assert await summary(assistant, "s1") == ""


async def test_a_quota_that_is_used_up_is_an_error_of_each_dialect(
    cluster: Cluster, assistant: Assistant, tenant: Tenant
) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    quota = limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(memories=1))
    quota.update_mask.paths.append("memories")
    await acting.tenancy.UpdateQuota(quota)
    await act(assistant, "add_memory", content="the only one")

    answers = [
        await act(assistant, "add_memory", content="one more"),
        await act(assistant, "add_memory", memory="one more"),
        await ask(assistant, command="STORE_MEMORY", data={"content": "one more"}),
        await ask(assistant, coordinate_with="episodic", operation="store", data={"content": "one more"}),
    ]

    assert [answer["status"] for answer in answers] == ["error", "error", "ERROR", "error"]
    assert all("quota" in (answer.get("reason") or answer["message"]) for answer in answers), answers


async def test_a_peer_that_leaves_in_the_middle_does_not_harm_others(assistant: Assistant) -> None:
    async with assistant.socket(zmq.DEALER, PORT) as peer:
        for number in range(20):
            await peer.send_json({**INTERACTION, "action": "add_interaction", "content": str(number)})

    assert await act(assistant, "add_interaction", **INTERACTION) == {"status": "ok"}


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
        answers = [await ask(assistant, **message) for message in EVERY_ACTION]
        alive = await act(assistant, "get_session_id", user_id="ana", project="p")

    for message, answer in zip(EVERY_ACTION, answers, strict=True):
        if "command" in message:
            assert answer == refusal(answer["message"], status="ERROR"), message
        else:
            assert answer["status"] == "error", message
            assert "again" in answer["reason"], message
        assert "127.0.0.1" not in json.dumps(answer)
    assert alive == {"status": "ok", "session_id": "ana_p"}


async def test_a_key_that_is_refused_is_an_error_of_each_dialect(cluster: Cluster) -> None:
    async with assistant_of({"SKEIN_PC2_API_KEY": "sk_nobody"}, patient=True, gateway=cluster.endpoint) as assistant:
        answers = [await ask(assistant, **message) for message in EVERY_ACTION]

    assert {answer["status"].lower() for answer in answers} == {"error"}


async def test_no_answer_tells_of_another_tenant(cluster: Cluster, assistant: Assistant, other_tenant: Tenant) -> None:
    environment = {"SKEIN_PC2_API_KEY": other_tenant.api_key}
    async with assistant_of(environment, patient=True, gateway=cluster.endpoint) as other:
        await act(other, "add_interaction", **{**INTERACTION, "content": "secret of theirs"})
        stored = await ask(other, command="STORE_MEMORY", data={"content": "secret of theirs"})
        reply = await act(other, "add_memory", user_id="ana", memory="secret of theirs")
    answers = [
        await act(assistant, "get_context", session_id="s1"),
        await act(assistant, "get_all_memories"),
        await act(assistant, "get_memories", user_id="ana"),
        await act(assistant, "delete_memory", user_id="ana", memory_id=reply["memory_id"]),
        await ask(assistant, command="QUERY_MEMORY", query={"id": stored["data"]["memory_id"]}),
        await ask(assistant, command="QUERY_MEMORY", query={"keywords": ["secret"]}),
        await ask(assistant, command="DELETE_MEMORY", memory_id=stored["data"]["memory_id"]),
    ]

    assert "secret of theirs" not in json.dumps(answers)
    assert answers[-1]["status"] == "ERROR"
