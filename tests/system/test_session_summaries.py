"""SummarizeSession: by the conversation's own sentences, and by a model behind a real HTTP endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import grpc
import pytest
from fix_cluster import Tenant, refused
from fix_database import TestDatabase
from fix_session_server import run_session_server

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc
from skein.session.v1 import states_pb2

EXTRACTIVE, MODEL = pb.SUMMARY_METHOD_EXTRACTIVE, pb.SUMMARY_METHOD_MODEL
KEY = "sk-the-secret-of-the-operator"
TALK = [
    (pb.MESSAGE_ROLE_SYSTEM, "You are a travel agent. Lisbon Lisbon Lisbon."),
    (pb.MESSAGE_ROLE_USER, "I want to plan a trip to Lisbon in May. My budget is 1,200 euros."),
    (pb.MESSAGE_ROLE_ASSISTANT, "Lisbon in May is warm. Flights to Lisbon cost about 180 euros."),
    (pb.MESSAGE_ROLE_TOOL, "booking 77 for Lisbon confirmed by the airline system"),
    (pb.MESSAGE_ROLE_ASSISTANT, "I booked the flight to Lisbon for 180 euros."),
]


async def talk(sessions: rpc.SessionServiceAsyncStub, session_id: str = "s") -> None:
    messages = [pb.Message(role=role, content=content) for role, content in TALK]
    await sessions.AppendMessages(
        pb.AppendMessagesRequest(session_id=session_id, messages=messages, create_session=True)
    )


async def summarize(sessions: rpc.SessionServiceAsyncStub, **fields: Any) -> pb.SummarizeSessionResponse:
    request = pb.SummarizeSessionRequest(session_id=fields.pop("session_id", "s"), **fields)
    return await sessions.SummarizeSession(request)


async def test_a_summary_is_made_of_what_people_and_agents_said(tenant: Tenant) -> None:
    await talk(tenant.sessions)

    made = await summarize(tenant.sessions, max_characters=200)

    assert (made.method, made.fallback_reason, made.truncated) == (EXTRACTIVE, "", False)
    assert made.summary.startswith("user: I want to plan a trip to Lisbon in May.")
    assert len(made.summary) <= 200
    assert "travel agent" not in made.summary
    assert "airline" not in made.summary
    assert await summarize(tenant.sessions, max_characters=200) == made


async def test_a_summary_is_kept_only_if_it_is_asked_to_be(tenant: Tenant) -> None:
    await talk(tenant.sessions)

    loose = await summarize(tenant.sessions)
    kept = await summarize(tenant.sessions, store=True)

    assert loose.session.summary == ""
    assert kept.session.summary == kept.summary == loose.summary
    read = await tenant.sessions.GetSession(pb.GetSessionRequest(session_id="s"))
    assert read.session == kept.session
    assert read.session.revision == loose.session.revision + 1


async def test_a_session_in_which_nothing_was_said_keeps_its_summary(tenant: Tenant) -> None:
    session = pb.Session(session_id="s", summary="older")
    await tenant.sessions.CreateSession(pb.CreateSessionRequest(session=session))

    made = await summarize(tenant.sessions, store=True)

    assert (made.summary, made.session.summary) == ("", "older")


async def test_a_long_session_is_summarized_from_its_end(tenant: Tenant) -> None:
    sentences = " ".join(f"Topic number {number} is about gardens." for number in range(2600))
    for _ in range(3):
        message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=sentences[:90_000])
        await tenant.sessions.AppendMessages(
            pb.AppendMessagesRequest(session_id="s", messages=[message], create_session=True)
        )

    made = await summarize(tenant.sessions, max_characters=20_000)

    assert made.truncated
    assert 0 < len(made.summary) <= 20_000


async def test_a_model_that_is_not_there_is_named_when_it_is_asked_for(tenant: Tenant) -> None:
    await talk(tenant.sessions)

    made = await summarize(tenant.sessions, method=MODEL)

    assert (made.method, made.fallback_reason) == (EXTRACTIVE, "not configured")
    assert made.summary


@pytest.mark.parametrize("wrong", [{"max_characters": -1}, {"max_characters": 20_001}, {"method": 9}])
async def test_a_summary_has_bounds(tenant: Tenant, wrong: dict[str, Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await summarize(tenant.sessions, **wrong)


# A model behind an endpoint.


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of callers that have gone."""


class Endpoint:
    """An HTTP server that answers as `reply` says: a status and a body."""

    def __init__(self, reply: Callable[[], tuple[int, object]]) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, dict(self.headers), body))
                status, answer = reply()
                content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def chat_completion(text: object) -> dict[str, object]:
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


@asynccontextmanager
async def modelled(
    database: TestDatabase, reply: Callable[[], tuple[int, object]], **settings: str
) -> AsyncIterator[tuple[rpc.SessionServiceAsyncStub, Endpoint]]:
    """Run a session service that asks an endpoint for summaries, with a talk in it."""
    endpoint = Endpoint(reply)
    environment = {
        "SKEIN_SESSION_SUMMARY_URL": endpoint.url,
        "SKEIN_SESSION_SUMMARY_MODEL": "small",
        **settings,
    }
    try:
        async with run_session_server(database, environment) as session_server, session_server.channel() as channel:
            sessions = rpc.SessionServiceStub(channel)
            await talk(sessions)
            yield sessions, endpoint
    finally:
        endpoint.close()


async def test_a_model_is_asked_as_openai_s_would_be(
    database: TestDatabase, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "key"
    secret.write_text(f"{KEY}\n")
    async with modelled(
        database,
        lambda: (200, chat_completion(" A flight to Lisbon was booked. ")),
        SKEIN_SESSION_SUMMARY_KEY_FILE=str(secret),
    ) as (sessions, endpoint):
        made = await summarize(sessions, store=True, max_characters=300)
        plain = await summarize(sessions, method=EXTRACTIVE)

    assert (made.summary, made.method, made.fallback_reason) == ("A flight to Lisbon was booked.", MODEL, "")
    assert made.session.summary == made.summary
    assert plain.method == EXTRACTIVE
    ((path, headers, body),) = endpoint.requests
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"]) == ("small", 0)
    system, user = body["messages"]
    assert "300 characters" in system["content"]
    assert user["content"].startswith("user: I want to plan a trip to Lisbon")
    assert "travel agent" not in user["content"]
    assert KEY not in "".join(capfd.readouterr())


async def test_messages_purged_while_a_model_works_are_in_no_summary(database: TestDatabase) -> None:
    event, thought = Event(), Event()

    def reply() -> tuple[int, object]:
        event.set()
        thought.wait(10)
        return 200, chat_completion(endpoint.requests[-1][2]["messages"][1]["content"])

    async with modelled(database, reply) as (sessions, endpoint):
        listed = await sessions.ListMessages(pb.ListMessagesRequest(session_id="s"))
        names = [message.message_id for message in listed.messages if "180 euros" in message.content]
        making = asyncio.ensure_future(summarize(sessions, store=True, request_id="r"))
        await asyncio.to_thread(event.wait)
        await sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=names))
        thought.set()
        made = await making
        again = await summarize(sessions, store=True, request_id="r")

    assert len(names) == 2
    assert (
        made.session.summary
        == made.summary
        == "user: I want to plan a trip to Lisbon in May. My budget is 1,200 euros."
    )
    assert again == made
    assert len(endpoint.requests) == 3


async def test_a_model_s_long_summary_is_cut(database: TestDatabase) -> None:
    async with modelled(database, lambda: (200, chat_completion("word " * 100))) as (sessions, _):
        made = await summarize(sessions, max_characters=50)

    assert made.method == MODEL
    assert len(made.summary) <= 50
    assert made.summary.endswith("word…")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((500, {}), "status 500"),
        ((401, {"error": KEY}), "status 401"),
        ((302, {}), "redirect 302"),
        ((200, {"choices": []}), "content"),
        ((200, chat_completion(None)), "content"),
        ((200, chat_completion("  ")), "empty"),
        ((200, b"no json"), "content"),
        ((200, [1]), "content"),
        ((200, chat_completion("x" * 2_000_000)), "size"),
    ],
)
async def test_a_model_that_fails_is_replaced_and_the_reason_named(
    database: TestDatabase, reply: tuple[int, object], why: str
) -> None:
    async with modelled(database, lambda: reply) as (sessions, _):
        made = await summarize(sessions, store=True)

    assert (made.method, made.fallback_reason) == (EXTRACTIVE, why)
    assert made.session.summary == made.summary
    assert made.summary.startswith("user: I want to plan")


async def test_a_model_that_thinks_too_long_is_replaced(database: TestDatabase) -> None:
    thinking = Event()

    def reply() -> tuple[int, object]:
        thinking.wait(30)
        return 200, chat_completion("late")

    try:
        async with modelled(database, reply, SKEIN_ADVANCED_SESSION_SUMMARY_TIMEOUT_SECONDS="0.3") as (sessions, _):
            made = await summarize(sessions)
    finally:
        thinking.set()

    assert (made.method, made.fallback_reason) == (EXTRACTIVE, "time")


async def test_a_model_that_does_not_answer_is_replaced(database: TestDatabase) -> None:
    async with modelled(database, lambda: (200, {}), SKEIN_SESSION_SUMMARY_URL="http://127.0.0.1:9/v1") as (
        sessions,
        _,
    ):
        made = await summarize(sessions, method=MODEL)

    assert (made.method, made.fallback_reason) == (EXTRACTIVE, "connection")
