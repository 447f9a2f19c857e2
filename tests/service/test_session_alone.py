"""The session service without its neighbours: recall is away, and the worker's calls come from a key of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import grpc
import pytest
from fix_cluster import refused
from fix_database import TestDatabase
from fix_session_server import SessionServer, run_session_server

from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc
from skein.session.v1 import states_pb2
from skein_kit.ids import add_months, month_start, now


@pytest.fixture
async def session_server(database: TestDatabase) -> AsyncIterator[SessionServer]:
    async with run_session_server(database, {}) as session_server:
        yield session_server


def request(*contents: str, session_id: str = "s", **fields: object) -> pb.AppendMessagesRequest:
    messages = [pb.Message(role=pb.MESSAGE_ROLE_USER, content=content) for content in contents]
    return pb.AppendMessagesRequest(
        session_id=session_id,
        messages=messages,
        create_session=True,
        **fields,  # type: ignore[arg-type]  # Any fields.
    )


@pytest.mark.system
async def test_without_recall_messages_are_stored_and_wait_for_their_vectors(session_server: SessionServer) -> None:
    async with session_server.channel() as channel:
        sessions = rpc.SessionServiceStub(channel)

        first = await sessions.AppendMessages(request("the lighthouse", "the sea", request_id="r-1"))
        again = await sessions.AppendMessages(request("the lighthouse", "the sea", request_id="r-1"))
        response = await sessions.SearchMessages(pb.SearchMessagesRequest(query="lighthouse"))

    assert first.pending_embedding_count == 2
    assert again == first
    assert [hit.message for hit in response.hits] == [first.messages[0]]
    assert [row["pending"] for row in await session_server.rows("SELECT pending FROM recall.documents")] == [True, True]


@pytest.mark.system
async def test_a_purge_leaves_nothing_of_messages_whose_vectors_are_being_made(database: TestDatabase) -> None:
    event, over = asyncio.Event(), asyncio.Event()

    async def silence(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        event.set()
        await over.wait()
        writer.close()

    server = await asyncio.start_server(silence, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with (
        server,
        run_session_server(database, {}, recall=f"{host}:{port}") as session_server,
        session_server.channel() as channel,
    ):
        sessions = rpc.SessionServiceStub(channel)
        saying = asyncio.ensure_future(sessions.AppendMessages(request("the kettle", request_id="r-1")))
        await event.wait()
        purged = await sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id="s"))
        assert not saying.done()
        over.set()
        appended = await saying
        again = await sessions.AppendMessages(request("the kettle", request_id="r-1"))
        kept = await session_server.rows(
            "SELECT response FROM session.requests WHERE position('kettle'::bytea IN response) > 0"
        )

    assert [message.message_id for message in appended.messages] == list(purged.receipt.message_ids)
    assert again == pb.AppendMessagesResponse()
    assert kept == []


@pytest.mark.system
async def test_without_recall_a_hybrid_search_is_by_words_and_says_so(session_server: SessionServer) -> None:
    async with session_server.channel() as channel:
        sessions = rpc.SessionServiceStub(channel)
        await sessions.AppendMessages(request("the lighthouse", "the sea"))

        response = await sessions.SearchMessages(
            pb.SearchMessagesRequest(query="lighthouses", mode=pb.SEARCH_MODE_HYBRID)
        )
        with refused(grpc.StatusCode.UNAVAILABLE, "SERVICE_UNAVAILABLE"):
            await sessions.SearchMessages(pb.SearchMessagesRequest(query="sea", mode=pb.SEARCH_MODE_SEMANTIC))

    assert [hit.message.content for hit in response.hits] == ["the lighthouse"]
    assert response.dense_unavailable


@pytest.mark.system
async def test_deleting_a_session_takes_its_messages_and_nothing_else_out_of_the_index(
    session_server: SessionServer,
) -> None:
    async with session_server.channel() as channel:
        sessions = rpc.SessionServiceStub(channel)
        await sessions.AppendMessages(request("the lighthouse", "the sea"))
        await sessions.AppendMessages(request("another sea", session_id="other"))
        async with session_server.database.superuser() as connection:
            await connection.execute(
                "INSERT INTO recall.documents (tenant_id, item_id, kind, session_id, length, revision) "
                "VALUES ($1, $2, 'memory', 's', 0, 1)",
                session_server.tenant_id,
                uuid4(),
            )

        await sessions.DeleteSession(pb.DeleteSessionRequest(session_id="s"))

    documents = await session_server.rows("SELECT kind, session_id FROM recall.documents ORDER BY kind")
    assert [tuple(row) for row in documents] == [("memory", "s"), ("message", "other")]
    assert {row["term"] for row in await session_server.rows("SELECT term FROM recall.postings")} == {"anoth", "sea"}
    active = await session_server.rows("SELECT content FROM session.messages WHERE is_active")
    assert [row["content"] for row in active] == ["another sea"]


@pytest.mark.system
async def test_the_months_ahead_are_made_once(session_server: SessionServer) -> None:
    async with session_server.channel(system=True, tenant=False) as channel:
        internal = rpc.SessionInternalServiceStub(channel)

        first = await internal.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        again = await internal.EnsurePartitions(pb.EnsurePartitionsRequest(months_ahead=5))
        default = await internal.EnsurePartitions(pb.EnsurePartitionsRequest())

    # The migration made this month and three more.
    assert (first.created_count, again.created_count, default.created_count) == (2, 0, 0)
    assert first.horizon_time.ToDatetime(UTC) == add_months(month_start(now()), 6)
    assert default.horizon_time.ToDatetime(UTC) == add_months(month_start(now()), 4)


@pytest.mark.system
async def test_answers_are_forgotten_after_a_day(session_server: SessionServer) -> None:
    async with session_server.channel() as channel, session_server.channel(system=True) as system:
        sessions, internal = rpc.SessionServiceStub(channel), rpc.SessionInternalServiceStub(system)
        await sessions.AppendMessages(request("old", request_id="old"))
        await sessions.AppendMessages(request("new", request_id="new"))
        async with session_server.database.superuser() as connection:
            await connection.execute(
                "UPDATE session.requests SET create_time = $1 WHERE request_id = 'old'",
                datetime.now(UTC) - timedelta(hours=25),
            )

        deleted = await internal.DeleteExpired(pb.DeleteExpiredRequest())
        await sessions.AppendMessages(request("old", request_id="old"))

    assert deleted.deleted_count == 1
    assert len(await session_server.rows("SELECT FROM session.messages")) == 3


async def test_a_message_lies_in_the_partition_of_its_month(session_server: SessionServer) -> None:
    old = request("long ago", "once upon a time", "now")
    old.messages[0].create_time.FromDatetime(datetime(2016, 2, 29, 23, 59, tzinfo=UTC))
    old.messages[1].create_time.FromDatetime(datetime(1999, 12, 31, tzinfo=UTC))
    async with session_server.channel() as channel:
        await rpc.SessionServiceStub(channel).AppendMessages(old)

    rows = await session_server.rows(
        "SELECT tableoid::regclass::text AS partition FROM session.messages ORDER BY sequence"
    )
    assert [row["partition"] for row in rows] == [
        "session.messages_y2016m02",
        "session.messages_before_2015",
        f"session.messages_{now():y%Ym%m}",
    ]
