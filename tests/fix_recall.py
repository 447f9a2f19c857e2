"""The recall service alone, with items written the way their owners write them: for tests of search and index.

Who calls is said by identity tokens of the tests' own signing key; everything else is as in a cluster.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import asyncpg
import pytest
from fix_cluster import AuthorizedChannel, test_environment
from fix_database import fresh_database
from fix_external_postgres import database_environment
from fix_identities import service_channel
from grpc import aio
from joserfc.jwk import OKPKey

from skein.recall.v1 import recall_pb2 as pb
from skein.recall.v1 import recall_pb2_grpc as rpc
from skein_cluster import registry
from skein_cluster.embedded.server import Server
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.host.process import run_services
from skein_kit.identity.identity_token import Caller, IdentityTokenVerifier, sign_identity_token
from skein_kit.identity.permissions import OPERATOR_PERMISSIONS, SYSTEM_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_kit.search_text.vector_columns import prepare_connection
from skein_kit.settings import ProcessSettings

INSERT_MEMORY = Query.parse(
    "insert",
    """
    INSERT INTO memory.memories
        (tenant_id, memory_id, type, title, key, content, source, agent_id, subject_id, session_id, scope, level,
         confidence, importance, expire_time, content_hash, create_time, update_time, created_by, updated_by)
    VALUES (:tenant_id, :item_id, :type, :title, :key, :content, :source, :agent_id, :subject_id, :session_id, :scope,
            'operational', 0.7, :importance, :expire_time, '', :at, :at, 'test', 'test')
    """,
)
INSERT_TAG = Query.parse("tag", "INSERT INTO memory.tags VALUES (:tenant_id, :item_id, :tag)")
INSERT_SESSION = Query.parse(
    "session",
    """
    INSERT INTO session.sessions
        (tenant_id, session_id, state, session_type, create_time, update_time, active_time, created_by)
    VALUES (:tenant_id, :session_id, 'active', 'conversation', :at, :at, :at, 'test') ON CONFLICT DO NOTHING
    """,
)
INSERT_MESSAGE = Query.parse(
    "message",
    """
    INSERT INTO session.messages (tenant_id, message_id, session_id, sequence, role, content, create_time, created_by)
    VALUES (:tenant_id, :item_id, :session_id, 1, 'user', :content, :at, 'test')
    """,
)


@dataclass(frozen=True)
class RecallServer:
    """A running recall service, and the databases of the services that write into its index."""

    channel: aio.Channel
    key: OKPKey
    url: str
    memory: Database
    session: Database

    def recall(self, tenant_id: uuid.UUID) -> rpc.RecallServiceAsyncStub:
        """Call as a principal with every permission in a tenant."""
        return rpc.RecallServiceStub(self._channel("api_key:test", tenant_id, TENANT_PERMISSIONS))

    def index(self, tenant_id: uuid.UUID, *, is_deleted: bool = False) -> rpc.RecallInternalServiceAsyncStub:
        """Call as the system, in a tenant that may be deleted."""
        channel = self._channel("system:worker", tenant_id, SYSTEM_PERMISSIONS, is_tenant_deleted=is_deleted)
        return rpc.RecallInternalServiceStub(channel)

    @property
    def operator(self) -> rpc.RecallServiceAsyncStub:
        return rpc.RecallServiceStub(self._channel("operator:test", None, OPERATOR_PERMISSIONS))

    def _channel(
        self,
        principal: str,
        tenant_id: uuid.UUID | None,
        permissions: frozenset[str],
        *,
        is_tenant_deleted: bool = False,
    ) -> aio.Channel:
        caller = Caller(
            principal=principal, tenant_id=tenant_id, permissions=permissions, is_tenant_deleted=is_tenant_deleted
        )
        return cast(
            "aio.Channel",
            AuthorizedChannel(self.channel, lambda: sign_identity_token(caller, key=self.key, at=now().timestamp())[0]),
        )

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Look behind the service, or arrange what no service does yet."""
        connection = await asyncpg.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def new_tenant(self) -> RecallTenant:
        """Make a tenant without data."""
        tenant_id, organization_id, at = new_id(now()), new_id(now()), now()
        async with self.superuser() as connection:
            await connection.execute(
                "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
                "VALUES ($1, 'test', $2, $3, $3)",
                organization_id,
                str(organization_id),
                at,
            )
            await connection.execute(
                "INSERT INTO tenancy.tenants "
                "(tenant_id, organization_id, display_name, slug, create_time, update_time) "
                "VALUES ($1, $2, 'test', $3, $4, $4)",
                tenant_id,
                organization_id,
                str(tenant_id),
                at,
            )
        return RecallTenant(self, tenant_id)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a test says of a memory beside its text."""

    type: str = "note"
    title: str | None = None
    key: str | None = None
    source: str | None = None
    agent_id: str | None = None
    subject_id: str | None = None
    session_id: str | None = None
    scope: str = "global"
    importance: float = 0.5
    expire_time: datetime | None = None
    tags: tuple[str, ...] = ()
    create_time: datetime = field(default_factory=now)


@dataclass(frozen=True)
class RecallTenant:
    """One tenant of the recall service."""

    service: RecallServer
    tenant_id: uuid.UUID

    @property
    def stub(self) -> rpc.RecallServiceAsyncStub:
        return self.service.recall(self.tenant_id)

    @property
    def index(self) -> rpc.RecallInternalServiceAsyncStub:
        return self.service.index(self.tenant_id)

    async def recall(self, query: str = "", **request: Any) -> pb.RecallResponse:
        return await self.stub.Recall(pb.RecallRequest(query=query, **request))

    async def contents(self, query: str = "", **request: Any) -> list[str]:
        """The contents of the hits, best first."""
        response = await self.recall(query, **request)
        return [hit.memory.content or hit.message.content for hit in response.hits]

    async def remember(self, content: str, *, index: bool = True, **fields: Any) -> str:
        """Write a memory as the memory service does, and have its vectors made unless `index` is false."""
        facts = Facts(**fields)
        item_id = new_id(facts.create_time)
        text = "\n".join(part for part in (facts.title, facts.key, content) if part)
        columns = {name: value for name, value in vars(facts).items() if name not in {"tags", "create_time"}}
        async with self.service.memory.global_transaction() as tx:
            await tx.execute(Query.parse("month", "SELECT memory.ensure_month(:at)"), at=facts.create_time)
        async with self.service.memory.transaction(self.tenant_id) as tx:
            await tx.execute(
                INSERT_MEMORY,
                tenant_id=self.tenant_id,
                item_id=item_id,
                content=content,
                at=facts.create_time,
                **columns,
            )
            await tx.insert(INSERT_TAG, self.tenant_id, [{"item_id": item_id, "tag": tag} for tag in facts.tags])
            document = postings.Document(
                item_id=item_id, kind="memory", text=text, **{n: v for n, v in columns.items() if n != "title"}
            )
            await postings.add_documents(tx, self.tenant_id, [document])
        if index:
            await self.embed(item_id, text)
        return str(item_id)

    async def say(self, content: str, *, session_id: str = "s1", index: bool = True) -> str:
        """Write a message as the session service does, and have its vectors made unless `index` is false."""
        at = now()
        item_id = new_id(at)
        async with self.service.session.transaction(self.tenant_id) as tx:
            await tx.execute(INSERT_SESSION, tenant_id=self.tenant_id, session_id=session_id, at=at)
            await tx.execute(
                INSERT_MESSAGE,
                tenant_id=self.tenant_id,
                item_id=item_id,
                session_id=session_id,
                content=content,
                at=at,
            )
            document = postings.Document(item_id=item_id, kind="message", text=content, session_id=session_id)
            await postings.add_documents(tx, self.tenant_id, [document])
        if index:
            await self.embed(item_id, content)
        return str(item_id)

    async def embed(self, item_id: uuid.UUID, text: str, *, revision: int = 1) -> int:
        item = pb.IndexItem(item_id=str(item_id), revision=revision, text=text)
        return (await self.index.IndexItems(pb.IndexItemsRequest(items=[item]))).indexed_count


@asynccontextmanager
async def serving(url: str, key: OKPKey, **settings: str) -> AsyncIterator[RecallServer]:
    """Run the recall service on a migrated database until the block ends."""
    from skein_recall.service import SERVICE  # noqa: PLC0415 - tests of other things need no model.

    async def public_keys() -> dict[str, str]:
        return {"test": json.dumps(key.as_dict(private=False))}

    environment = test_environment() | database_environment(url) | settings
    host = registry.host_of(ProcessSettings.read(environment), environment)
    host._verifier = IdentityTokenVerifier(public_keys)
    async with (
        run_services([SERVICE], host) as cluster,
        service_channel(host.addresses["recall"], "recall") as channel,
        Database.open(url, service="memory", size=4, timeout=30.0, init=prepare_connection) as memory,
        Database.open(url, service="session", size=4, timeout=30.0, init=prepare_connection) as session,
    ):
        await cluster.wait_ready(60)
        yield RecallServer(channel=channel, key=key, url=url, memory=memory, session=session)


@pytest.fixture(scope="session")
async def recall_server(server: Server, template: str) -> AsyncIterator[RecallServer]:
    """Run the recall service on a database of its own."""
    key = OKPKey.generate_key("Ed25519", parameters={"kid": "test"})
    async with fresh_database(server, template) as database, serving(database.url, key) as service:
        yield service


@pytest.fixture
async def recall_tenant(recall_server: RecallServer) -> RecallTenant:
    """A fresh tenant of the recall service."""
    return await recall_server.new_tenant()
