"""A session service with a folder of cold storage of its own, and sessions on their way there."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fix_database import TestDatabase
from fix_session_server import SessionServer, run_session_server
from google.protobuf import json_format

from skein.session.v1 import archives_pb2, states_pb2
from skein.session.v1 import session_pb2 as pb
from skein.session.v1 import session_pb2_grpc as rpc

MARKER = "a heron named marker"
SAID: tuple[dict[str, Any], ...] = (
    {"role": 1, "content": MARKER, "externalId": "e1", "subjectId": "ann", "parts": [{"a": 1}]},
    {"role": 2, "toolCalls": [{"id": "t1"}], "metadata": {"k": ["ü", 1e300, 0.1]}},
    {"role": 1, "content": "what stays"},
)


@dataclass(frozen=True)
class Sessions:
    """A tenant's sessions, called with its key."""

    stub: rpc.SessionServiceAsyncStub

    async def hide(self, session_id: str = "s", *turns: dict[str, Any], **session: Any) -> list[pb.Message]:
        """Open a session, let something be said in it, and hide it; return its messages."""
        opened = pb.Session(session_id=session_id, **session)
        await self.stub.CreateSession(pb.CreateSessionRequest(session=opened))
        messages = [json_format.ParseDict(message, pb.Message()) for message in turns or SAID]
        await self.stub.AppendMessages(pb.AppendMessagesRequest(session_id=session_id, messages=messages))
        await self.stub.HideSession(pb.HideSessionRequest(session_id=session_id))
        return await self.listed(session_id)

    async def archive(
        self, session_id: str = "s", *, seconds: float = 30.0, **fields: Any
    ) -> archives_pb2.ArchiveSessionResponse:
        request = archives_pb2.ArchiveSessionRequest(session_id=session_id, **fields)
        return await self.stub.ArchiveSession(request, timeout=seconds)

    async def unarchive(
        self, session_id: str = "s", *, seconds: float = 30.0, **fields: Any
    ) -> archives_pb2.UnarchiveSessionResponse:
        request = archives_pb2.UnarchiveSessionRequest(session_id=session_id, **fields)
        return await self.stub.UnarchiveSession(request, timeout=seconds)

    async def listed(self, session_id: str = "s", **fields: Any) -> list[pb.Message]:
        return list((await self.stub.ListMessages(pb.ListMessagesRequest(session_id=session_id, **fields))).messages)

    async def session(self, session_id: str = "s") -> pb.Session:
        return (await self.stub.GetSession(pb.GetSessionRequest(session_id=session_id))).session

    async def archived(self, **fields: Any) -> list[archives_pb2.ArchivedSession]:
        request = archives_pb2.ListArchivedSessionsRequest(**fields)
        return list((await self.stub.ListArchivedSessions(request)).sessions)

    async def purge_subject(self, subject_id: str, **fields: Any) -> states_pb2.PurgeReceipt:
        request = states_pb2.PurgeSubjectRequest(subject_id=subject_id, **fields)
        return (await self.stub.PurgeSubject(request)).receipt

    async def purge(self, session_id: str = "s", **fields: Any) -> states_pb2.PurgeReceipt:
        request = states_pb2.PurgeSessionRequest(session_id=session_id, **fields)
        return (await self.stub.PurgeSession(request)).receipt

    async def purge_messages(self, *names: str, **fields: Any) -> states_pb2.PurgeReceipt:
        request = states_pb2.PurgeMessagesRequest(message_ids=names, **fields)
        return (await self.stub.PurgeMessages(request)).receipt


@dataclass(frozen=True)
class Deployment:
    """A session service, its folder, and one of its tenants."""

    server: SessionServer
    folder: Path

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.gz"))

    def texts(self) -> list[str]:
        """Return what the files say."""
        return [gzip.decompress(file.read_bytes()).decode() for file in self.files]

    @asynccontextmanager
    async def sessions(self) -> AsyncIterator[Sessions]:
        async with self.server.channel() as channel:
            yield Sessions(rpc.SessionServiceStub(channel))

    async def work(self, **fields: Any) -> archives_pb2.ArchiveHiddenSessionsResponse:
        """Do what the worker asks for."""
        async with self.server.channel(system=True) as channel:
            internal = rpc.SessionInternalServiceStub(channel)
            return await internal.ArchiveHiddenSessions(archives_pb2.ArchiveHiddenSessionsRequest(**fields))

    async def rule(self, days: int) -> None:
        """Let the tenant's archive_days be so many."""
        async with self.server.database.superuser() as connection:
            await connection.execute(
                "INSERT INTO tenancy.policies (tenant_id, archive_days, update_time) VALUES ($1, $2, now())",
                self.server.tenant_id,
                days,
            )

    async def execute(self, statement: str) -> None:
        """Change something of this tenant as the superuser; $1 is the tenant."""
        async with self.server.database.superuser() as connection:
            await connection.execute(statement, self.server.tenant_id)

    async def grow_old(self) -> None:
        """Let all hidden sessions be hidden for long."""
        await self.execute(
            "UPDATE session.sessions SET hide_time = '2020-01-01T00:00:00Z' WHERE tenant_id = $1 AND state = 'hidden'"
        )

    async def usage(self) -> int:
        """Return how many messages count for the tenant."""
        async with self.server.database.superuser() as connection:
            result = await connection.fetchval(
                "SELECT coalesce(sum(amount), 0)::bigint FROM session.usage WHERE kind = 'messages' AND tenant_id = $1",
                self.server.tenant_id,
            )
        return int(result)

    async def marked(self) -> list[str]:
        """Return the tables that hold the marker still."""
        tables = await self.server.rows(
            "SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' AND table_schema IN ('session', 'recall')"
        )
        return [
            table["name"]
            for table in tables
            if await self.server.rows(
                f"SELECT FROM {table['name']} AS t WHERE strpos(t::text, 'marker') > 0 "
                f"OR strpos(t::text, encode('marker', 'hex')) > 0"
            )
        ]

    async def neighbour(self) -> Deployment:
        """Return another tenant of the same service."""
        tenant_id = uuid.uuid4()
        async with self.server.database.superuser() as connection:
            await connection.execute(
                "INSERT INTO tenancy.tenants "
                "(tenant_id, organization_id, display_name, slug, create_time, update_time) "
                "SELECT $1, organization_id, 'u', 'u', now(), now() FROM tenancy.tenants WHERE tenant_id = $2",
                tenant_id,
                self.server.tenant_id,
            )
        return replace(self, server=replace(self.server, tenant_id=tenant_id))


@asynccontextmanager
async def house_of(database: TestDatabase, folder: Path) -> AsyncIterator[Deployment]:
    async with run_session_server(database, {"SKEIN_SESSION_ARCHIVE_DIR": str(folder)}) as session_server:
        yield Deployment(session_server, folder)
