"""Public RPCs through the gateway, with the API key of a port, and the sources of what a message stores."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from urllib.parse import quote

import grpc
from google.protobuf.message import Message
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import curation_pb2_grpc, history_pb2_grpc, memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein.tenancy.v1 import tenancy_pb2_grpc
from skein_kit.calls.call import ADDRESS_KEY, AUTHORIZATION_KEY, CLAIMED_AGENT_KEY, CLAIMED_SESSION_KEY, REQUEST_ID_KEY
from skein_kit.errors import DatabaseUnavailable, Overloaded, reason_of_call
from skein_kit.json_values.number_marks import mark_message, unmark_message
from skein_kit.rpc.grpc_handler import FORWARDED_FOR
from skein_kit.text.source_keys import source_key
from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.protocol.errors import STORAGE_ERROR, RequestError, retry_seconds, waits_for_approval
from skein_pc2.protocol.sender import UNKNOWN, Sender
from skein_pc2.recent_names import RecentNames
from skein_pc2.settings import has_own_identity, identity_of

_CHECK_SECONDS = 1.5
_ACCEPTED_CACHE_SECONDS = 10.0
_REJECTED_CACHE_SECONDS = 1.0
# Shortest and longest pause before an OVERLOADED call is repeated.
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.05, 0.4
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,128}")
# Characters of a claim that stand for themselves, and the most characters that a gateway takes.
_CLAIM_CHARACTERS = "!\"#$&'()*+,/:;<=>?@[\\]^`{|} "
_MAX_CLAIM_CHARACTERS = 255

Request_contra = TypeVar("Request_contra", contravariant=True)
Response_co = TypeVar("Response_co", covariant=True)
Metadata = tuple[tuple[str, str], ...]


class Method(Protocol[Request_contra, Response_co]):
    """One RPC of a stub."""

    def __call__(self, request: Request_contra, /, *, timeout: float, metadata: Metadata) -> Awaitable[Response_co]:
        """Call it."""


class GatewayApi:
    """The public services, called on behalf of the assistants.

    `await api.call(api.memories.GetMemory, request, context)` calls one; the attributes are the stubs.
    """

    def __init__(self, channel: aio.Channel, key: Callable[[], str], *, is_trusted_proxy: bool = False) -> None:
        """`key` returns the API key, "" while there is none.

        With `is_trusted_proxy` calls name the address of the assistant as a proxy does.
        """
        self._key = key
        self._is_trusted_proxy = is_trusted_proxy
        self.memories: memory_pb2_grpc.MemoryServiceAsyncStub = memory_pb2_grpc.MemoryServiceStub(channel)
        self.links: memory_pb2_grpc.LinkServiceAsyncStub = memory_pb2_grpc.LinkServiceStub(channel)
        self.curation: curation_pb2_grpc.CurationServiceAsyncStub = curation_pb2_grpc.CurationServiceStub(channel)
        self.history: history_pb2_grpc.HistoryServiceAsyncStub = history_pb2_grpc.HistoryServiceStub(channel)
        self.sessions: session_pb2_grpc.SessionServiceAsyncStub = session_pb2_grpc.SessionServiceStub(channel)
        self.tenancy: tenancy_pb2_grpc.TenancyServiceAsyncStub = tenancy_pb2_grpc.TenancyServiceStub(channel)
        self.index: recall_pb2_grpc.RecallServiceAsyncStub = recall_pb2_grpc.RecallServiceStub(channel)
        self._auth: auth_pb2_grpc.AuthServiceAsyncStub = auth_pb2_grpc.AuthServiceStub(channel)
        # Sessions that exist in the key's tenant.
        self.existing_session_ids = RecentNames()
        self._dimensions: dict[str, int] = {}
        self._is_accepted = False
        # The last check found no rows of the key's tenant: the database, or a machine of it, does not answer.
        self.is_away = False
        self._next_check_time = 0.0

    def has_key(self) -> bool:
        """Say whether there is an API key."""
        return bool(self._key())

    async def is_accepted(self) -> bool:
        """Say whether the gateway accepts the key; the result is cached for a few seconds."""
        loop = asyncio.get_running_loop()
        if self.has_key() and loop.time() >= self._next_check_time:
            try:
                await self._auth.GetMe(auth_pb2.GetMeRequest(), timeout=_CHECK_SECONDS, metadata=self.metadata(""))
                self._is_accepted = True
            except aio.AioRpcError as error:
                self.is_away = reason_of_call(error) == DatabaseUnavailable.reason
                self._is_accepted = False
            else:
                self.is_away = False
            self._next_check_time = loop.time() + (
                _ACCEPTED_CACHE_SECONDS if self._is_accepted else _REJECTED_CACHE_SECONDS
            )
        return self._is_accepted

    async def find(
        self, method: Method[Request_contra, Response_co], request: Request_contra, context: RequestContext
    ) -> Response_co | None:
        """Call an RPC as `call` does; return None when it finds nothing (NOT_FOUND)."""
        try:
            return await self.call(method, request, context)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return None

    async def call(
        self, method: Method[Request_contra, Response_co], request: Request_contra, context: RequestContext
    ) -> Response_co:
        """Call an RPC within the context's time, under its id. Raises AioRpcError, and RequestError without a key.

        Assistants take every answer for a saved memory, so a write that waits for approval raises RequestError too;
        each memory of a batch has its own `pending_approval`.

        An OVERLOADED call had no effect, and assistants do not repeat it, so this method does. It waits for the pause
        that the gateway names, or for half of the remaining time if that is shorter.
        """
        pause = _MIN_PAUSE_SECONDS
        if isinstance(request, Message):
            unmark_message(request)
            name_sources(request, context.sender)
        while True:
            try:
                reply = await method(
                    request,
                    timeout=context.remaining_seconds(),
                    metadata=self.metadata(context.request_id, context.sender),
                )
            except aio.AioRpcError as error:
                remaining_seconds = context.remaining_seconds()
                if reason_of_call(error) != Overloaded.reason or remaining_seconds <= 2 * pause:
                    raise
                retry_pause = retry_seconds(error)
            else:
                _check_is_stored(reply)
                if isinstance(reply, Message):
                    mark_message(reply)
                return reply
            jitter = random.uniform(1.0, 1.5)  # noqa: S311 - only spreads the calls.
            await asyncio.sleep(min(max(retry_pause, pause) * jitter, remaining_seconds / 2))
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    async def dimensions(self, model: str, context: RequestContext) -> int | None:
        """Return the dimensions of a model; None for an unknown model."""
        if model and model not in self._dimensions:
            models = await self.call(self.index.ListEmbeddingModels, recall_pb2.ListEmbeddingModelsRequest(), context)
            self._dimensions = {model_row.model: model_row.dimensions for model_row in models.embedding_models}
        return self._dimensions.get(model)

    def metadata(self, request_id: str, sender: Sender = UNKNOWN) -> Metadata:
        """Return a call's metadata: the API key, the request id and who sent the message. Raises RequestError.

        A gateway in the same process takes the sender's address. Another one takes it from a trusted proxy alone.
        """
        key = self._key()
        if not key:
            raise RequestError(STORAGE_ERROR, "Skein is starting: there is no identity to act with yet")
        credential: Metadata = ((AUTHORIZATION_KEY, f"Bearer {key}"),)
        optional = (
            (REQUEST_ID_KEY, request_id),
            (ADDRESS_KEY, sender.address),
            (FORWARDED_FOR if self._is_trusted_proxy else "", sender.address),
            (CLAIMED_SESSION_KEY, sender.session_id),
        )
        # A source whose memories wait has this claim, so it is sent whatever letters it has.
        claim = quote(sender.agent_id or sender.item_agent_id, _CLAIM_CHARACTERS)[:_MAX_CLAIM_CHARACTERS].strip()
        if claim:
            credential = (*credential, (CLAIMED_AGENT_KEY, claim))
        # Metadata may contain printable ASCII only, so other ids and names are not sent.
        return (*credential, *((name, text) for name, text in optional if name and _PRINTABLE.fullmatch(text)))


class PortApis:
    """The API of each port: one for all, except ports with an API key of their own."""

    def __init__(self, channel: aio.Channel, environment: Mapping[str, str], *, is_trusted_proxy: bool = False) -> None:
        self._channel = channel
        self._environment = environment
        self._is_trusted_proxy = is_trusted_proxy
        self._shared = GatewayApi(channel, identity_of(environment), is_trusted_proxy=self._is_trusted_proxy)
        self._apis_by_port: dict[int, GatewayApi] = {}
        self._used_apis: set[GatewayApi] = set()

    def of(self, port: int) -> GatewayApi:
        """Return the API of a port of the protocol."""
        if port not in self._apis_by_port and has_own_identity(self._environment, port):
            self._apis_by_port[port] = GatewayApi(
                self._channel, identity_of(self._environment, port), is_trusted_proxy=self._is_trusted_proxy
            )
        api = self._apis_by_port.get(port, self._shared)
        self._used_apis.add(api)
        return api

    async def are_accepted(self) -> bool:
        """Say whether the gateway accepts the key of every port.

        A port whose tenant lies on a machine of Citus that is away keeps the others from nothing.
        """
        apis = list(self._used_apis)
        accepted = await asyncio.gather(*(api.is_accepted() for api in apis))
        return any(accepted) and all(
            api.is_away for api, is_accepted in zip(apis, accepted, strict=True) if not is_accepted
        )


def _check_is_stored(reply: object) -> None:
    """Raises RequestError for the answer of a write that waits for approval."""
    if isinstance(reply, memory_pb2.CreateMemoryResponse) and reply.memory.pending_approval:
        raise waits_for_approval(reply.memory.memory_id)
    if isinstance(reply, memory_pb2.UpdateMemoryResponse) and reply.pending_id:
        raise waits_for_approval(reply.pending_id)


def name_sources(request: Message, sender: Sender) -> None:
    """Add the sender of a message to what it stores, unless that names its source itself. A repeat changes nothing.

    Assistants that share an API key have one principal, which is the verified author of all that they store. What a
    message names is a claim, as the source_agent of a memory is, and may be rated.
    """
    match request:
        case memory_pb2.CreateMemoryRequest():
            _name_agent([request.memory], sender.agent_id)
        case memory_pb2.BatchCreateMemoriesRequest():
            _name_agent(request.memories, sender.agent_id)
        case session_pb2.AppendMessagesRequest():
            for message in request.messages:
                is_persons = message.role == session_pb2.MESSAGE_ROLE_USER
                message.sender_id = message.sender_id or (message.subject_id if is_persons else sender.agent_id)


def _name_agent(memories: Sequence[memory_pb2.Memory], agent_id: str) -> None:
    if not agent_id:
        return
    key = source_key(agent_id)
    for memory in memories:
        names = [memory.source, memory.source_agent, *(source.name for source in memory.derived_from)]
        if key not in map(source_key, names):
            memory.derived_from.add(kind=memory_pb2.SOURCE_KIND_AGENT, name=agent_id)
