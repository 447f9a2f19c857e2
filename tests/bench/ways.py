"""The same four operations by three ways: on the services' stores in this process, on their ports, through the gateway.

Every way does the same work for the same kind of text; what differs is what lies between the caller and the database.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.sentences import Sentences
from bench.subject import Subject
from fix_identities import service_channel
from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein.session.v1 import session_pb2, session_pb2_grpc
from skein_client.channels import OPTIONS
from skein_kit import message_rows
from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import TxOptions
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now
from skein_kit.outbound.fetch import OutboundSettings, SafeHttpClient
from skein_kit.policies.store import PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text.postings import Document
from skein_kit.search_text.vector_columns import prepare_connection as prepare_vectors
from skein_memory.memories import convert as memory_wire
from skein_memory.memories.model import create_memories, documents_of
from skein_memory.memories.store import MemoryStore
from skein_memory.vault.encryption import MasterKeys
from skein_memory.vault.store import Vault
from skein_recall.embedded_model.embedder import LocalEmbedders
from skein_recall.index.embedding_queue import EmbeddingQueue
from skein_recall.index.indexer import Indexer
from skein_recall.index.store import IndexStore
from skein_recall.index.term_counts import TermCountStore
from skein_recall.index.vector_store import VectorStore
from skein_recall.models.model import EMBEDDED_MODEL, ModelRegistry
from skein_recall.models.store import ModelStore
from skein_recall.providers.api_keys import ApiKeys
from skein_recall.providers.text_embedder import IndexItem, ProviderRegistry, TextEmbedder
from skein_recall.search.convert import DEFAULT_LIMIT
from skein_recall.search.filter import Filter
from skein_recall.search.model import Query
from skein_recall.search.name_cache import NameCache
from skein_recall.search.searcher import QueryReader, RecallSearcher, SearchCaches
from skein_recall.search.store import QueryStore
from skein_recall.service import prepare_connection
from skein_recall.term_cache.cache import TermCache
from skein_recall.term_cache.store import TermCacheStore
from skein_recall.vector_cache.cache import VectorCache
from skein_recall.vector_cache.store import VectorCacheStore
from skein_session.extractions.store import ExtractionStore
from skein_session.idempotency import SessionIdempotencyStore
from skein_session.messages import rpc as message_convert
from skein_session.messages.store import MessageStore
from skein_session.sessions.store import SessionStore

GET, CREATE, APPEND, RECALL = "GetMemory", "CreateMemory", "AppendMessages", "Recall"
SQL, SQL_ONE_SEARCH, SERVICE, GATEWAY = "SQL directly", "SQL, one search", "service", "gateway"
_SESSIONS = 64
_SECONDS = 30.0
_POOL = 10
_MAX_CONTENT = 100_000
_KINDS = ("memory", "message")


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way to do the operations; each takes a number that no other call gets."""

    name: str
    operations: Mapping[str, Callable[[int], Awaitable[object]]]
    # The work is done in this process, Postgres apart.
    is_here: bool = False


class Material:
    """What calls are made of; memories to read are those of `memory_ids`."""

    def __init__(self, memory_ids: Sequence[str], seed: int) -> None:
        self._memory_ids = memory_ids
        self._sentences = Sentences(seed)

    def read(self, number: int) -> memory_pb2.GetMemoryRequest:
        return memory_pb2.GetMemoryRequest(memory_id=self._memory_ids[number * 7919 % len(self._memory_ids)])

    def create(self, _number: int) -> memory_pb2.CreateMemoryRequest:
        return memory_pb2.CreateMemoryRequest(memory=self.memory(), request_id=str(uuid.uuid4()))

    def append(self, number: int) -> session_pb2.AppendMessagesRequest:
        return session_pb2.AppendMessagesRequest(
            session_id=f"bench-{number % _SESSIONS}",
            messages=[self.message()],
            create_session=True,
            request_id=str(uuid.uuid4()),
        )

    def memory(self) -> memory_pb2.Memory:
        return memory_pb2.Memory(
            content=self._sentences.statement(), tags=["household", "bench"], source="bench", subject_id="mira"
        )

    def message(self) -> session_pb2.Message:
        return session_pb2.Message(
            role=session_pb2.MESSAGE_ROLE_USER, content=self._sentences.statement(), subject_id="mira"
        )

    def question(self) -> str:
        return self._sentences.question()


@asynccontextmanager
async def directly(subject: Subject, tenant_id: uuid.UUID, material: Material) -> AsyncIterator[list[Way]]:
    """Use the services' stores and the embedded model in this process, each store on a pool of its own."""
    async with AsyncExitStack() as stack:

        async def database(service: str, init: Any = None) -> Database:
            opened = Database.open(subject.database_url, service=service, size=_POOL, timeout=_SECONDS, init=init)
            return await stack.enter_async_context(opened)

        embedders = await stack.enter_async_context(LocalEmbedders())
        recall = await database("recall", prepare_connection)
        models = ModelStore(recall, settle_seconds=0.0)
        registry = ModelRegistry(models, seconds=_SECONDS)
        outbound = SafeHttpClient.from_settings(OutboundSettings.read({}))
        providers = ProviderRegistry(embedders, outbound, ApiKeys.read({}))
        embedder = TextEmbedder(providers, query_seconds=_SECONDS)
        memory = await database("memory", prepare_vectors)
        session = await database("session", prepare_vectors)
        indexer = Indexer(IndexStore(recall), VectorStore(recall), TermCountStore(recall), registry, embedder)
        queries = QueryStore(recall)
        idempotency = IdempotencyStore(memory, "memory")
        here = _Here(
            idempotency=idempotency,
            caller=Caller(principal="bench", tenant_id=tenant_id, permissions=frozenset()),
            memories=MemoryStore(
                memory,
                idempotency=idempotency,
                quotas=QuotaCounter("memory"),
                policies=PolicyCache(),
                vault=Vault(MasterKeys(None)),
                months=_months(memory),
            ),
            messages=MessageStore(
                session,
                SessionStore(session, QuotaCounter("session"), PolicyCache()),
                QuotaCounter("session"),
                _months(session),
                ExtractionStore(session, PolicyCache()),
            ),
            session_idempotency=SessionIdempotencyStore(session),
            searcher=RecallSearcher(
                queries,
                registry,
                embedder,
                EmbeddingQueue(indexer.index),
                # What is compared is the database's part.
                SearchCaches(
                    vectors=VectorCache(VectorCacheStore(recall), max_bytes=0),
                    terms=TermCache(TermCacheStore(recall), VectorCacheStore(recall), max_bytes=0),
                ),
                QueryReader(NameCache(recall), (await embedders.get(EMBEDDED_MODEL)).has_word),
                wait_seconds=_SECONDS,
            ),
            indexer=indexer,
            material=material,
        )
        writing = {GET: here.get_memory, CREATE: here.create_memory, APPEND: here.append_messages}
        yield [
            Way(name=SQL, operations={**writing, RECALL: here.recall_by_branches}, is_here=True),
            Way(name=SQL_ONE_SEARCH, operations={RECALL: here.recall_at_once}, is_here=True),
        ]


@asynccontextmanager
async def services(subject: Subject, material: Material) -> AsyncIterator[Way]:
    """Call each service's own port with a signed identity."""
    async with AsyncExitStack() as stack:

        async def channel(service: str) -> aio.Channel:
            opened = service_channel(subject.addresses[service], service, options=OPTIONS)
            return await stack.enter_async_context(opened)

        identity = _Identity(auth_pb2_grpc.AuthInternalServiceStub(await channel("auth")), subject.api_key)
        recall = recall_pb2_grpc.RecallServiceStub(await channel("recall"))

        async def recalled(_number: int) -> object:
            request = recall_pb2.RecallRequest(query=material.question())
            return await recall.Recall(request, metadata=await identity.metadata(), timeout=_SECONDS)

        memory = memory_pb2_grpc.MemoryServiceStub(await channel("memory"))
        session = session_pb2_grpc.SessionServiceStub(await channel("session"))
        yield Way(
            name=SERVICE,
            operations={
                GET: _calling(memory.GetMemory, material.read, identity.metadata),
                CREATE: _calling(memory.CreateMemory, material.create, identity.metadata),
                APPEND: _calling(session.AppendMessages, material.append, identity.metadata),
                RECALL: recalled,
            },
        )


@asynccontextmanager
async def gateway(subject: Subject, material: Material) -> AsyncIterator[Way]:
    """Call the public port with an API key."""
    async with aio.insecure_channel(subject.addresses["gateway"], options=OPTIONS) as channel:

        async def metadata() -> tuple[tuple[str, str], ...]:
            return (("authorization", f"Bearer {subject.api_key}"),)

        public = gateway_pb2_grpc.GatewayServiceStub(channel)

        async def recalled(_number: int) -> object:
            request = gateway_pb2.RecallRequest(query=material.question())
            response = await public.Recall(request, metadata=await metadata(), timeout=_SECONDS)
            if response.incomplete:
                message = "a branch did not answer"
                raise RuntimeError(message)
            return response

        memory = memory_pb2_grpc.MemoryServiceStub(channel)
        session = session_pb2_grpc.SessionServiceStub(channel)
        yield Way(
            name=GATEWAY,
            operations={
                GET: _calling(memory.GetMemory, material.read, metadata),
                CREATE: _calling(memory.CreateMemory, material.create, metadata),
                APPEND: _calling(session.AppendMessages, material.append, metadata),
                RECALL: recalled,
            },
        )


def _calling(method: Any, request: Callable[[int], Any], metadata: Callable[[], Awaitable[Any]]) -> Any:
    async def call(number: int) -> object:
        return await method(request(number), metadata=await metadata(), timeout=_SECONDS)

    return call


class _Identity:
    """A signed identity, renewed before it ends, as the gateway does."""

    _LIFETIME = 20.0

    def __init__(self, identities: auth_pb2_grpc.AuthInternalServiceAsyncStub, api_key: str) -> None:
        self._identities = identities
        self._api_key = api_key
        self._until = 0.0
        self._token = ""

    async def metadata(self) -> tuple[tuple[str, str], ...]:
        at = asyncio.get_running_loop().time()
        if at >= self._until:
            response = await self._identities.Exchange(auth_pb2.ExchangeRequest(bearer=self._api_key))
            self._token, self._until = response.token, at + self._LIFETIME
        return (("authorization", f"Bearer {self._token}"),)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Here:
    """The operations as the servicers do them, without interceptors and without messages of the answers."""

    caller: Caller
    memories: MemoryStore
    idempotency: IdempotencyStore
    messages: MessageStore
    session_idempotency: SessionIdempotencyStore
    searcher: RecallSearcher
    indexer: Indexer
    material: Material

    async def get_memory(self, number: int) -> object:
        name = self.material.read(number).memory_id
        return (await self.memories.get_memories(self.caller.require_tenant(), [name], at=now()))[name]

    async def create_memory(self, number: int) -> None:
        request, at = self.material.create(number), now()
        draft = memory_wire.draft(request.memory, at=at, max_content=_MAX_CONTENT)
        (memory,) = create_memories([draft], at=at, by=self.caller.principal)
        documents = documents_of([memory], at=at)
        key, tenant_id = IdempotencyKey.of(self.caller, request), self.caller.require_tenant()
        async with self.memories.begin_create(tenant_id, [memory], at=at) as (tx, scored):
            response = memory_pb2.CreateMemoryResponse(memory=memory_wire.memory(scored[0]))
            await self.idempotency.claim(tx, tenant_id, key, response=response.SerializeToString())
            await self.memories.create_memories(tx, tenant_id, [memory], documents, at=at)
        await self._index(documents)

    async def append_messages(self, number: int) -> None:
        request, at = self.material.append(number), now()
        batch = message_convert.read_batch(request, at=at, principal=self.caller.principal, max_content=_MAX_CONTENT)
        key = IdempotencyKey.of(self.caller, request)
        tenant_id = self.caller.require_tenant()
        async with (
            self.messages.prepare_append(tenant_id, batch),
            self.session_idempotency.begin_with_key(tenant_id, key, TxOptions(plan_once=True)) as write,
        ):
            await self.messages.append_messages(write.tx, tenant_id, batch)
            await write.save(session_pb2.AppendMessagesResponse(messages=map(message_rows.message, batch.rows)))
        await self._index(batch.documents)

    async def recall_by_branches(self, _number: int) -> object:
        """Search each kind by itself at the same time, as the gateway's branches do."""
        text = self.material.question()
        answers = await asyncio.gather(*(self._recall(text, (kind,)) for kind in _KINDS))
        hits = [hit for answer in answers for hit in answer.hits]
        return sorted(hits, key=lambda hit: (-hit[0].score, str(hit[0].item_id)))[:DEFAULT_LIMIT]

    async def recall_at_once(self, _number: int) -> object:
        return await self._recall(self.material.question(), _KINDS)

    async def _recall(self, text: str, kinds: tuple[str, ...]) -> Any:
        question = Query(
            text=text,
            vector=None,
            limit=DEFAULT_LIMIT,
            kinds=kinds,
            filter=Filter(),
            min_similarity=0.0,
            show_superseded=False,
            weights={},
            fusion="",
        )
        return await self.searcher.recall(self.caller.require_tenant(), question, seconds=_SECONDS)

    async def _index(self, documents: Sequence[Document]) -> None:
        items = [IndexItem(document.item_id, document.revision, document.text) for document in documents]
        if await self.indexer.index(self.caller.require_tenant(), items) != len(items):
            message = "an item was not indexed"
            raise RuntimeError(message)


def _months(database: Database) -> MonthlyPartitions:
    return MonthlyPartitions(database, Queries.load(f"skein_{database.service}")["ensure_month"])
