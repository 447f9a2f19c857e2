"""Messages have the agent and the subject of their session unless they name their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_database import TestDatabase
from fix_session_server import SessionServer, run_session_server
from google.protobuf.field_mask_pb2 import FieldMask

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import archives_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc


class Sessions:
    """What the tests do with a session service, by whatever channel."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub

    async def opened(self, session_id: str = "s", **fields: Any) -> None:
        await self.stub.CreateSession(pb.CreateSessionRequest(session=pb.Session(session_id=session_id, **fields)))

    async def append(self, content: str, session_id: str = "s", **fields: Any) -> pb.Message:
        message = pb.Message(role=pb.MESSAGE_ROLE_USER, content=content, **fields)
        request = pb.AppendMessagesRequest(session_id=session_id, messages=[message], create_session=True)
        stored: pb.Message = (await self.stub.AppendMessages(request)).messages[0]
        return stored

    async def changed(self, session_id: str = "s", **fields: Any) -> None:
        await self.stub.UpdateSession(
            pb.UpdateSessionRequest(
                session=pb.Session(session_id=session_id, **fields), update_mask=FieldMask(paths=list(fields))
            )
        )

    async def of(self, **whose: Any) -> list[str]:
        response = await self.stub.ListAgentMessages(pb.ListAgentMessagesRequest(**whose))
        return [message.content for message in response.messages]


async def recalled(tenant: Tenant, query: str, **conditions: Any) -> set[str]:
    response = await tenant.recall.Recall(
        recall_pb2.RecallRequest(query=query, filter=memory_pb2.MemoryFilter(**conditions))
    )
    return {hit.message.content for hit in response.hits if hit.HasField("message")}


@pytest.fixture
def sessions(tenant: Tenant) -> Sessions:
    return Sessions(tenant.sessions)


@pytest.mark.system
async def test_a_message_without_participants_is_found_by_its_sessions_agent_and_subject(
    tenant: Tenant, sessions: Sessions
) -> None:
    await sessions.opened(agent_id="butler", subject_id="ada")

    stored = await sessions.append("the lighthouse is red")

    assert (stored.agent_id, stored.subject_id) == ("butler", "ada")
    read = await tenant.sessions.GetMessage(pb.GetMessageRequest(message_id=stored.message_id))
    assert read.message == stored
    assert await sessions.of(agent_id="butler") == ["the lighthouse is red"]
    assert await sessions.of(subject_id="ada") == ["the lighthouse is red"]
    assert await recalled(tenant, "lighthouse", agent_id="butler") == {"the lighthouse is red"}
    assert await recalled(tenant, "lighthouse", subject_id="ada") == {"the lighthouse is red"}
    assert await recalled(tenant, "lighthouse", subject_id="bob") == set()


async def test_a_message_s_own_participants_take_precedence(tenant: Tenant, sessions: Sessions) -> None:
    await sessions.opened(agent_id="butler", subject_id="ada")

    stored = await sessions.append("the lighthouse is blue", agent_id="cook")

    assert (stored.agent_id, stored.subject_id) == ("cook", "ada")
    assert await sessions.of(agent_id="butler") == []
    assert await recalled(tenant, "lighthouse", agent_id="cook", subject_id="ada") == {"the lighthouse is blue"}


async def test_the_sessions_agent_leads_over_the_one_that_the_caller_acts_as(cluster: Cluster, tenant: Tenant) -> None:
    key = await tenant.auth.CreateApiKey(
        auth_pb2.CreateApiKeyRequest(display_name="k", permissions=["session.write", "session.read"], agent_id="voice")
    )
    bound = Sessions(cluster.with_key(key.secret).sessions)
    await Sessions(tenant.sessions).opened("theirs", agent_id="butler")
    await Sessions(tenant.sessions).opened("plain")

    in_theirs = await bound.append("one", "theirs")
    in_plain = await bound.append("two", "plain")
    in_own = await bound.append("three", "own")

    assert [message.agent_id for message in (in_theirs, in_plain, in_own)] == ["butler", "voice", "voice"]


async def test_messages_get_the_first_subject_that_their_session_gets_and_keep_it(
    tenant: Tenant, sessions: Sessions
) -> None:
    await sessions.append("the lighthouse is old")
    assert await sessions.of(subject_id="ada") == []

    await sessions.changed(subject_id="ada")
    await sessions.changed(subject_id="bob")
    await sessions.append("the lighthouse is new")

    assert await sessions.of(subject_id="ada") == ["the lighthouse is old"]
    assert await recalled(tenant, "lighthouse", subject_id="ada") == {"the lighthouse is old"}
    assert await recalled(tenant, "lighthouse", subject_id="bob") == {"the lighthouse is new"}


@pytest.fixture
async def session_server(database: TestDatabase, tmp_path: Path) -> AsyncIterator[SessionServer]:
    async with run_session_server(database, {"SKEIN_DATA_DIR": str(tmp_path)}) as session_server:
        yield session_server


async def forget_participants(session_server: SessionServer) -> None:
    """Leave rows as the version before leaves them: it knows of no inheritance."""
    async with session_server.database.superuser() as connection:
        await connection.execute(
            "UPDATE session.messages SET agent_id = NULL, subject_id = NULL;"
            "UPDATE recall.documents SET agent_id = NULL, subject_id = NULL;"
            "UPDATE session.sessions SET inherited_sequence = 0"
        )


@pytest.mark.system
async def test_messages_of_an_older_version_are_brought_up_some_at_a_time(session_server: SessionServer) -> None:
    async with session_server.channel() as channel, session_server.channel(system=True) as system:
        sessions, internal = Sessions(rpc.SessionServiceStub(channel)), rpc.SessionInternalServiceStub(system)
        await sessions.opened(agent_id="butler", subject_id="ada")
        for number in range(5):
            await sessions.append(f"{number}")
        await forget_participants(session_server)
        assert await sessions.of(agent_id="butler") == []

        first = await internal.InheritParticipants(pb.InheritParticipantsRequest(limit=3))
        assert (first.changed_count, first.more) == (3, True)
        assert await sessions.of(subject_id="ada") == ["2", "1", "0"]
        await sessions.append("5")
        second = await internal.InheritParticipants(pb.InheritParticipantsRequest())
        third = await internal.InheritParticipants(pb.InheritParticipantsRequest())

        assert (second.changed_count, second.more, third.changed_count, third.more) == (2, False, 0, False)
        assert await sessions.of(agent_id="butler") == ["5", "4", "3", "2", "1", "0"]
        remaining = await session_server.rows(
            "SELECT FROM recall.documents WHERE agent_id IS NULL OR subject_id IS NULL"
        )
        assert remaining == []


@pytest.mark.system
async def test_a_file_of_cold_storage_that_is_older_than_its_sessions_subject_has_it(
    session_server: SessionServer,
) -> None:
    async with session_server.channel() as channel:
        sessions = Sessions(rpc.SessionServiceStub(channel))
        await sessions.append("the lighthouse")
        await sessions.stub.HideSession(pb.HideSessionRequest(session_id="s"))
        await sessions.stub.ArchiveSession(archives_pb2.ArchiveSessionRequest(session_id="s"))
        await sessions.changed(subject_id="ada")

        shown = await sessions.stub.ListMessages(pb.ListMessagesRequest(session_id="s", show_archived=True))
        exported = await sessions.stub.ExportSubject(pb.ExportSubjectRequest(subject_id="ada"))
        await sessions.stub.UnarchiveSession(archives_pb2.UnarchiveSessionRequest(session_id="s"))

        assert [message.subject_id for message in shown.messages] == ["ada"]
        subject_ids = [record.message.subject_id for record in exported.records if record.HasField("message")]
        assert subject_ids == ["ada"]
        assert await sessions.of(subject_id="ada") == ["the lighthouse"]
