"""The asynchronous client: typed stubs of every public service, and short ways to the most used calls."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NoReturn, Self, cast

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from skein.memory.v1 import (
    blocks_pb2_grpc,
    curation_pb2_grpc,
    history_pb2,
    history_pb2_grpc,
    memory_pb2,
    memory_pb2_grpc,
    snapshots_pb2_grpc,
)
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2, tenancy_pb2_grpc
from skein_client import pagination, request_messages, resumable_streams
from skein_client.channels import AsyncChannel, async_channel
from skein_client.connection import DEFAULT_TIMEOUT_SECONDS, ClientClosed, Connection
from skein_client.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from grpc import aio

_STUBS = frozenset(
    {
        "auth",
        "tenancy",
        "sessions",
        "memories",
        "links",
        "blocks",
        "curation",
        "snapshots",
        "history",
        "index",
        "gateway",
    }
)


class Client:
    """A connection to a cluster, to be entered with `async with`.

    The attributes are generated stubs, one for each public service: `await skein.memories.GetMemory(request)`. Every
    call carries the credential and a deadline, is repeated when that is safe, and raises a SkeinError when it fails.
    """

    auth: auth_pb2_grpc.AuthServiceAsyncStub
    tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub
    sessions: session_pb2_grpc.SessionServiceAsyncStub
    memories: memory_pb2_grpc.MemoryServiceAsyncStub
    links: memory_pb2_grpc.LinkServiceAsyncStub
    blocks: blocks_pb2_grpc.BlockServiceAsyncStub
    curation: curation_pb2_grpc.CurationServiceAsyncStub
    snapshots: snapshots_pb2_grpc.SnapshotServiceAsyncStub
    # What happened; `watch_changes` and `follow_session` resume their streams by themselves.
    history: history_pb2_grpc.HistoryServiceAsyncStub
    # The search service by itself; `recall` asks the gateway, which searches everything at once.
    index: recall_pb2_grpc.RecallServiceAsyncStub
    gateway: gateway_pb2_grpc.GatewayServiceAsyncStub

    def __init__(
        self,
        *,
        endpoint: str,
        api_key: str,
        tenant_id: str = "",
        agent_id: str = "",
        session_id: str = "",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """Call the cluster at `endpoint` ("host:port", or "https://host:port" for TLS).

        `timeout` is the time in seconds that one call gets, retries included; each call may say otherwise.
        `tenant_id` is for an operator's key: the tenant to act in. `agent_id` and `session_id` are claims that the
        access log notes beside the credential's own agent; no permission follows from them. `ca_file` (PEM) vouches for
        a TLS endpoint whose certificate is nobody's that gRPC knows.
        """
        self._connection = Connection(
            endpoint=endpoint,
            api_key=api_key,
            tenant_id=tenant_id,
            agent_id=agent_id,
            session_id=session_id,
            ca_file=ca_file,
            timeout=timeout,
            retries=retries or RetryPolicy(),
        )
        self._open = AsyncExitStack()

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
    ) -> Self:
        """Use SKEIN_ENDPOINT and SKEIN_API_KEY, or the credentials that `skein up` wrote. Raises NotConfigured."""
        found = Connection.from_environment(environment)
        return cls(
            endpoint=found.endpoint,
            api_key=found.api_key,
            tenant_id=found.tenant_id,
            timeout=timeout,
            retries=retries,
            ca_file=found.ca_file,
        )

    async def __aenter__(self) -> Self:
        connection = self._connection
        plain = await self._open.enter_async_context(async_channel(connection))
        channel = cast("aio.Channel", AsyncChannel(plain, connection))
        self.auth = auth_pb2_grpc.AuthServiceStub(channel)
        self.tenancy = tenancy_pb2_grpc.TenancyServiceStub(channel)
        self.sessions = session_pb2_grpc.SessionServiceStub(channel)
        self.memories = memory_pb2_grpc.MemoryServiceStub(channel)
        self.links = memory_pb2_grpc.LinkServiceStub(channel)
        self.blocks = blocks_pb2_grpc.BlockServiceStub(channel)
        self.curation = curation_pb2_grpc.CurationServiceStub(channel)
        self.snapshots = snapshots_pb2_grpc.SnapshotServiceStub(channel)
        self.history = history_pb2_grpc.HistoryServiceStub(channel)
        self.index = recall_pb2_grpc.RecallServiceStub(channel)
        self.gateway = gateway_pb2_grpc.GatewayServiceStub(channel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget_stubs()
        await self._open.aclose()

    def __getattr__(self, name: str) -> NoReturn:
        """Say what to do about a stub that is not there: those come and go with the connection."""
        if name in _STUBS:
            message = "The client is not open: use it inside `async with Client(...) as skein:`."
            raise ClientClosed(message)
        message = f"a client has no {name!r}"
        raise AttributeError(message)

    def _forget_stubs(self) -> None:
        for name in _STUBS:
            self.__dict__.pop(name, None)

    async def remember(
        self,
        memories: request_messages.MemoryInput | Iterable[request_messages.MemoryInput] = (),
        *,
        messages: request_messages.MessageInput | Iterable[request_messages.MessageInput] = (),
        session_id: str = "",
        request_id: str = "",
        timeout: float | None = None,
    ) -> gateway_pb2.RememberResponse:
        """Store memories (a text is a note), one or many, and append messages to a session, opening it on first use.

        A message is a Message or a dict such as {"role": "user", "content": "Hello"}; other keys are fields of Message.
        Memories are stored first. When the messages are refused after that, the error's `request_id` repeats the call
        with messages that are corrected, and the memories are not stored twice. Give a `request_id` of your own to
        make the call repeatable from elsewhere; a repeated call returns the first answer and stores nothing twice.
        """
        request = request_messages.remember_request(memories, messages, session_id, request_id)
        return await self.gateway.Remember(request, timeout=timeout)

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        arms: Iterable[request_messages.Arm] = (),
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        min_similarity: float = 0.0,
        embedding: Iterable[float] = (),
        mode: request_messages.Mode = "hybrid",
        timeout: float | None = None,
    ) -> gateway_pb2.RecallResponse:
        """Find memories, messages and blocks for a text, best first; `incomplete` names the arms that are missing.

        `mode` "keyword" finds what contains a word of the text, and calls no model; "semantic" finds by meaning alone;
        "hybrid" does both, and `has_query_words` of a hit says whether it contains a word itself.

        What else a recall can be told (weights, fusion, on_partial ...) is said to `gateway.Recall`.
        """
        request = request_messages.recall_request(
            query,
            limit=limit,
            arms=arms,
            filter=filter,
            min_similarity=min_similarity,
            embedding=embedding,
            mode=mode,
        )
        return await self.gateway.Recall(request, timeout=timeout)

    async def find_similar(
        self,
        item_id: str,
        *,
        limit: int = 10,
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        min_similarity: float = 0.0,
        mode: request_messages.Mode = "hybrid",
        timeout: float | None = None,
    ) -> recall_pb2.FindSimilarResponse:
        """Find the memories and messages most like a stored one, best first; `mode` is that of `recall`."""
        request = request_messages.find_similar_request(
            item_id, limit=limit, filter=filter, min_similarity=min_similarity, mode=mode
        )
        return await self.index.FindSimilar(request, timeout=timeout)

    async def build_context(  # noqa: PLR0913 - each has a name and a default.
        self,
        query: str,
        *,
        token_budget: int = 0,
        session_id: str = "",
        limit: int = 0,
        arms: Iterable[request_messages.Arm] = (),
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        embedding: Iterable[float] = (),
        mode: request_messages.Mode = "hybrid",
        timeout: float | None = None,
    ) -> gateway_pb2.BuildContextResponse:
        """Pack the best of what is known for a text into a budget of tokens (0 means 2,000), with citations.

        `session_id` adds the end of that conversation. The text belongs into a prompt; `citations` tells what its
        numbers stand for. `mode` is that of `recall`.
        """
        request = request_messages.build_context_request(
            query,
            token_budget=token_budget,
            session_id=session_id,
            limit=limit,
            arms=arms,
            filter=filter,
            embedding=embedding,
            mode=mode,
        )
        return await self.gateway.BuildContext(request, timeout=timeout)

    def list_memories(
        self,
        *,
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        show_archived: bool = False,
        show_deleted: bool = False,
        page_size: int = 0,
    ) -> AsyncIterator[memory_pb2.Memory]:
        """Go through every memory that passes the filter, newest first."""
        request = memory_pb2.ListMemoriesRequest(
            filter=filter, show_archived=show_archived, show_deleted=show_deleted, page_size=page_size
        )
        return pagination.iterate_pages(self.memories.ListMemories, request, "memories")

    def list_links(
        self,
        memory_id: str,
        *,
        direction: memory_pb2.LinkDirection = memory_pb2.LINK_DIRECTION_UNSPECIFIED,
        relation: str = "",
        page_size: int = 0,
    ) -> AsyncIterator[memory_pb2.Link]:
        """Go through every link of one memory, newest first."""
        request = memory_pb2.ListLinksRequest(
            memory_id=memory_id, direction=direction, relation=relation, page_size=page_size
        )
        return pagination.iterate_pages(self.links.ListLinks, request, "links")

    def list_sessions(
        self,
        *,
        state: session_pb2.SessionState = session_pb2.SESSION_STATE_UNSPECIFIED,
        subject_id: str = "",
        agent_id: str = "",
        page_size: int = 0,
    ) -> AsyncIterator[session_pb2.Session]:
        """Go through every session, newest update first."""
        request = session_pb2.ListSessionsRequest(
            state=state, subject_id=subject_id, agent_id=agent_id, page_size=page_size
        )
        return pagination.iterate_pages(self.sessions.ListSessions, request, "sessions")

    def list_messages(
        self, session_id: str, *, newest_first: bool = False, page_size: int = 0
    ) -> AsyncIterator[session_pb2.Message]:
        """Go through every message of one session, in order of sequence."""
        request = session_pb2.ListMessagesRequest(session_id=session_id, newest_first=newest_first, page_size=page_size)
        return pagination.iterate_pages(self.sessions.ListMessages, request, "messages")

    def list_agents(self, *, page_size: int = 0) -> AsyncIterator[tenancy_pb2.Agent]:
        """Go through every agent of the tenant, in order of agent_id."""
        request = tenancy_pb2.ListAgentsRequest(page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListAgents, request, "agents")

    def list_tenants(self, *, organization_id: str = "", page_size: int = 0) -> AsyncIterator[tenancy_pb2.Tenant]:
        """Go through every tenant that the credential may see, newest first."""
        request = tenancy_pb2.ListTenantsRequest(organization_id=organization_id, page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListTenants, request, "tenants")

    def list_organizations(self, *, page_size: int = 0) -> AsyncIterator[tenancy_pb2.Organization]:
        """Go through every organization, newest first; operators only."""
        request = tenancy_pb2.ListOrganizationsRequest(page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListOrganizations, request, "organizations")

    def list_api_keys(self, *, page_size: int = 0) -> AsyncIterator[auth_pb2.ApiKey]:
        """Go through every API key of the tenant, newest first, revoked ones included."""
        request = auth_pb2.ListApiKeysRequest(page_size=page_size)
        return pagination.iterate_pages(self.auth.ListApiKeys, request, "api_keys")

    def watch_changes(
        self,
        *,
        position: str = "",
        event_types: Iterable[str] = (),
        entity_type: str = "",
        entity_id: str = "",
    ) -> AsyncIterator[history_pb2.Change]:
        """Go through what happens in the tenant's memory, from after a position or, without one, from now on.

        It has no end; a stream that is cut off is resumed. Keep the position of the last change to go on another day.
        """
        asked = resumable_streams.ChangeCursor(
            position=position, event_types=event_types, entity_type=entity_type, entity_id=entity_id
        )
        return resumable_streams.resume_stream(self.history.WatchChanges, asked, self._connection.retries)

    def follow_session(
        self, session_id: str, *, after_sequence: int | None = None
    ) -> AsyncIterator[session_pb2.Message]:
        """Go through a session's messages as they are appended, until it ends; without `after_sequence` from now on."""
        asked = resumable_streams.MessageCursor(session_id=session_id, after_sequence=after_sequence)
        return resumable_streams.resume_stream(self.sessions.StreamMessages, asked, self._connection.retries)
