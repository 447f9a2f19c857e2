"""The asynchronous client: typed stubs of every public service, and short ways to the most used calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, cast

from grpc import aio

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
from skein_client.errors import Aborted, NotFound
from skein_client.retry import RetryPolicy

# Errors after which a ledger has a new first text.
_BEGIN_ANEW = frozenset({"CONTEXT_LEDGER_NOT_FOUND", "CONTEXT_LEDGER_CHANGED"})
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
    """A connection to a cluster: enter it with `async with`.

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
    # What happened; `stream_changes` and `follow_session` resume their streams by themselves.
    history: history_pb2_grpc.HistoryServiceAsyncStub
    # The search service by itself; `recall` asks the gateway, which searches everything at once.
    index: recall_pb2_grpc.RecallServiceAsyncStub
    gateway: gateway_pb2_grpc.GatewayServiceAsyncStub

    def __init__(  # noqa: PLR0913 - what a connection has, by name.
        self,
        *,
        endpoint: str,
        api_key: str,
        tenant_id: str = "",
        agent_id: str = "",
        session_id: str = "",
        space_id: str = "",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """Call the cluster at `endpoint` ("host:port", or "https://host:port" for TLS).

        `timeout` is the limit of one call in seconds, retries included; each call may set its own. `tenant_id` is for
        the key of an operator: the tenant to act in. `agent_id` and `session_id` are claims: the access log records
        them beside the credential's own agent, and they grant no permission. `space_id` is the space in which calls
        act, in place of all that the caller sees. `ca_file` (PEM) holds the certificates to trust at a TLS endpoint,
        in place of gRPC's own.
        """
        self._connection = Connection(
            endpoint=endpoint,
            api_key=api_key,
            tenant_id=tenant_id,
            agent_id=agent_id,
            session_id=session_id,
            space_id=space_id,
            ca_file=ca_file,
            timeout=timeout,
            retries=retries or RetryPolicy(),
        )
        self._exit_stack = AsyncExitStack()

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: RetryPolicy | None = None,
    ) -> Self:
        """Use SKEIN_ENDPOINT and SKEIN_API_KEY, or the credentials that `skein up` wrote. Raises NotConfigured."""
        connection = Connection.from_environment(environment)
        return cls(
            endpoint=connection.endpoint,
            api_key=connection.api_key,
            tenant_id=connection.tenant_id,
            space_id=connection.space_id,
            timeout=timeout,
            retries=retries,
            ca_file=connection.ca_file,
        )

    async def __aenter__(self) -> Self:
        connection = self._connection
        raw_channel = await self._exit_stack.enter_async_context(async_channel(connection))
        channel = cast("aio.Channel", AsyncChannel(raw_channel, connection))
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
        self._clear_stubs()
        await self._exit_stack.aclose()

    def __getattr__(self, name: str) -> NoReturn:
        """Raise ClientClosed for a stub: stubs exist only while the client is open."""
        if name in _STUBS:
            message = "The client is not open: use it inside `async with Client(...) as skein:`."
            raise ClientClosed(message)
        message = f"a client has no {name!r}"
        raise AttributeError(message)

    def _clear_stubs(self) -> None:
        for name in _STUBS:
            self.__dict__.pop(name, None)

    async def remember(  # noqa: PLR0913 - each has a name and a default.
        self,
        memories: request_messages.MemoryInput | Iterable[request_messages.MemoryInput] = (),
        *,
        messages: request_messages.MessageInput | Iterable[request_messages.MessageInput] = (),
        session_id: str = "",
        subject_id: str = "",
        agent_id: str = "",
        on_similar: request_messages.OnSimilar | None = None,
        on_conflict: request_messages.OnConflict = "fail",
        request_id: str = "",
        timeout: float | None = None,
    ) -> gateway_pb2.RememberResponse:
        """Store memories (a text is a note) and append messages to a session, which the first message opens.

        A message is a Message or a dict such as {"role": "user", "content": "Hello"}; other keys are fields of Message.
        `subject_id` names the person whom all of it is about, and `agent_id` the agent: of items without their own, and
        of a new session. `on_similar` says what happens if a stored memory says the same: "return" returns the stored
        one, "reinforce" also strengthens it, "keep" stores the new one beside it. None: "return", for a caller who may
        read memories. `on_conflict` says what happens with a fact whose key another fact of the person has: "fail",
        "update" changes that one, "return" returns it, "supersede" ends it and stores the new one.

        Memories are stored first. If the messages are refused after that, correct them and repeat the call with the
        error's `request_id`: the memories are not stored twice. With a `request_id` of your own any client may repeat
        the call; a repeated call returns the first answer and changes nothing.
        """
        request = request_messages.remember_request(
            memories,
            messages,
            session_id=session_id,
            subject_id=subject_id,
            agent_id=agent_id,
            on_similar=on_similar,
            on_conflict=on_conflict,
            request_id=request_id,
        )
        return await self.gateway.Remember(request, timeout=timeout)

    async def recall(  # noqa: PLR0913 - each has a name and a default.
        self,
        query: str,
        *,
        subject_id: str = "",
        limit: int = 0,
        branches: Iterable[request_messages.Branch] = (),
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        min_similarity: float = 0.0,
        min_relevance: float | None = None,
        embedding: Iterable[float] = (),
        mode: request_messages.Mode = "hybrid",
        as_of_time: datetime | None = None,
        timeout: float | None = None,
    ) -> gateway_pb2.RecallResponse:
        """Return memories, messages and blocks for a query, best first; `incomplete` names the branches that failed.

        `subject_id` is the person whom the caller asks for: nothing about or of another person is found. `mode`
        "keyword" returns items that contain a word of the query, and calls no model. "semantic" compares by
        meaning alone. "hybrid" does both, and `has_query_words` of a hit says whether it contains a word of the query.
        `min_similarity` is a cosine from -1 to 1. `embedding` is the query's vector, if the caller has one. Hits of a
        lower relevance than `min_relevance`, 0 to 1, are left out; None: than the tenant's policy says; 0 keeps all.
        There are at most `limit` hits; 0: 10, and 25 for a query that asks for all of something.
        With `as_of_time`, in UTC if it has no zone, the answer is that of then.

        Call `gateway.Recall` for further options, such as message_filter, weights and on_partial.
        """
        request = request_messages.recall_request(
            query,
            subject_id=subject_id,
            limit=limit,
            branches=branches,
            filter=filter,
            min_similarity=min_similarity,
            min_relevance=min_relevance,
            embedding=embedding,
            mode=mode,
            as_of_time=as_of_time,
        )
        return await self.gateway.Recall(request, timeout=timeout)

    async def find_similar(
        self,
        item_id: str,
        *,
        subject_id: str = "",
        limit: int = 10,
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        min_similarity: float = 0.0,
        mode: request_messages.Mode = "hybrid",
        timeout: float | None = None,
    ) -> recall_pb2.FindSimilarResponse:
        """Return the memories and messages most similar to a stored item, best first.

        `subject_id` and `mode` are those of `recall`.
        """
        request = request_messages.find_similar_request(
            item_id, subject_id=subject_id, limit=limit, filter=filter, min_similarity=min_similarity, mode=mode
        )
        return await self.index.FindSimilar(request, timeout=timeout)

    async def build_context(  # noqa: PLR0913 - each has a name and a default.
        self,
        query: str,
        *,
        subject_id: str = "",
        token_budget: int = 0,
        session_id: str = "",
        limit: int = 0,
        branches: Iterable[request_messages.Branch] = (),
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        embedding: Iterable[float] = (),
        mode: request_messages.Mode = "hybrid",
        as_of_time: datetime | None = None,
        timeout: float | None = None,
    ) -> gateway_pb2.BuildContextResponse:
        """Return the best hits for a query as one text for a prompt, within `token_budget` tokens (0: 2,000).

        `citations` explains the numbers in the text. `session_id` adds the end of that conversation. `subject_id`,
        `mode` and `as_of_time` are those of `recall`.
        """
        request = request_messages.build_context_request(
            query,
            subject_id=subject_id,
            token_budget=token_budget,
            session_id=session_id,
            limit=limit,
            branches=branches,
            filter=filter,
            embedding=embedding,
            mode=mode,
            as_of_time=as_of_time,
        )
        return await self.gateway.BuildContext(request, timeout=timeout)

    def context_ledger(
        self,
        ledger_id: str,
        *,
        subject_id: str = "",
        token_budget: int = 0,
        session_id: str = "",
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
    ) -> ContextLedger:
        """Return the context of one conversation, which keeps the prompt cache of a model's provider.

        `ledger_id` names the conversation, such as its session. The other arguments are those of `build_context`.
        """
        return ContextLedger(
            self,
            ledger_id,
            subject_id=subject_id,
            token_budget=token_budget,
            session_id=session_id,
            filter=filter,
        )

    def list_memories(
        self,
        *,
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
        show_archived: bool = False,
        show_deleted: bool = False,
        page_size: int = 0,
    ) -> AsyncIterator[memory_pb2.Memory]:
        """Yield every memory that passes the filter, newest first."""
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
        """Yield every link of one memory, newest first."""
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
        """Yield every session, newest update first."""
        request = session_pb2.ListSessionsRequest(
            state=state, subject_id=subject_id, agent_id=agent_id, page_size=page_size
        )
        return pagination.iterate_pages(self.sessions.ListSessions, request, "sessions")

    def list_messages(
        self, session_id: str, *, newest_first: bool = False, page_size: int = 0
    ) -> AsyncIterator[session_pb2.Message]:
        """Yield every message of one session, in order of sequence."""
        request = session_pb2.ListMessagesRequest(session_id=session_id, newest_first=newest_first, page_size=page_size)
        return pagination.iterate_pages(self.sessions.ListMessages, request, "messages")

    def list_agents(self, *, page_size: int = 0) -> AsyncIterator[tenancy_pb2.Agent]:
        """Yield every agent of the tenant, in order of agent_id."""
        request = tenancy_pb2.ListAgentsRequest(page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListAgents, request, "agents")

    def list_tenants(self, *, organization_id: str = "", page_size: int = 0) -> AsyncIterator[tenancy_pb2.Tenant]:
        """Yield every tenant that the credential may see, newest first."""
        request = tenancy_pb2.ListTenantsRequest(organization_id=organization_id, page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListTenants, request, "tenants")

    def list_organizations(self, *, page_size: int = 0) -> AsyncIterator[tenancy_pb2.Organization]:
        """Yield every organization, newest first; operators only."""
        request = tenancy_pb2.ListOrganizationsRequest(page_size=page_size)
        return pagination.iterate_pages(self.tenancy.ListOrganizations, request, "organizations")

    def list_api_keys(self, *, page_size: int = 0) -> AsyncIterator[auth_pb2.ApiKey]:
        """Yield every API key of the tenant, newest first, revoked ones included."""
        request = auth_pb2.ListApiKeysRequest(page_size=page_size)
        return pagination.iterate_pages(self.auth.ListApiKeys, request, "api_keys")

    def stream_changes(
        self,
        *,
        position: str = "",
        event_types: Iterable[str] = (),
        entity_type: str = "",
        entity_id: str = "",
    ) -> AsyncIterator[history_pb2.Change]:
        """Yield the changes of the tenant's memory after a position, or from now on without one.

        The iterator has no end and resumes broken streams. Keep the position of the last change to continue later.
        """
        cursor = resumable_streams.ChangeCursor(
            position=position, event_types=event_types, entity_type=entity_type, entity_id=entity_id
        )
        return resumable_streams.resume_stream(self.history.StreamChanges, cursor, self._connection.retries)

    def follow_session(
        self, session_id: str, *, after_sequence: int | None = None
    ) -> AsyncIterator[session_pb2.Message]:
        """Yield a session's messages as they are appended, until it ends; without `after_sequence` from now on."""
        cursor = resumable_streams.MessageCursor(session_id=session_id, after_sequence=after_sequence)
        return resumable_streams.resume_stream(self.sessions.StreamMessages, cursor, self._connection.retries)


class ContextLedger:
    """The context of one conversation, of which each turn sends what is new alone.

    `text` is what the prompt has. A turn adds to its end and leaves every earlier character as it is, unless its answer
    names a `rebase`: then the text is a new one. Take one turn at a time.
    """

    def __init__(
        self,
        client: Client,
        ledger_id: str,
        *,
        subject_id: str = "",
        token_budget: int = 0,
        session_id: str = "",
        filter: memory_pb2.MemoryFilter | None = None,  # noqa: A002 - the contract's own word.
    ) -> None:
        """Use `client`; `Client.context_ledger` explains the arguments."""
        self._client = client
        self._ledger_id = ledger_id
        self._subject_id = subject_id
        self._token_budget = token_budget
        self._session_id = session_id
        self._filter = filter
        self.text = ""
        self.revision = 0
        # What each turn since the last first text added: a list of parts for providers that take several.
        self.parts: list[str] = []

    async def turn(
        self, query: str, *, limit: int = 0, timeout: float | None = None
    ) -> gateway_pb2.BuildContextResponse:
        """Bring the text up to date for a query, and return the answer.

        A ledger that has expired, or that another turn changed, begins anew.
        """
        try:
            response = await self._build(query, limit, timeout)
        except (NotFound, Aborted) as error:
            if error.reason not in _BEGIN_ANEW:
                raise
            self.revision = 0
            response = await self._build(query, limit, timeout)
        if response.rebase:
            self.parts.clear()
        if response.text:
            self.parts.append(response.text)
        self.text = "".join(self.parts)
        self.revision = response.ledger_revision
        return response

    async def _build(self, query: str, limit: int, timeout: float | None) -> gateway_pb2.BuildContextResponse:
        request = request_messages.build_context_request(
            query,
            subject_id=self._subject_id,
            token_budget=self._token_budget,
            session_id=self._session_id,
            limit=limit,
            branches=(),
            filter=self._filter,
            embedding=(),
            mode="hybrid",
            as_of_time=None,
        )
        request.ledger_id, request.ledger_revision = self._ledger_id, self.revision
        return await self._client.gateway.BuildContext(request, timeout=timeout)
