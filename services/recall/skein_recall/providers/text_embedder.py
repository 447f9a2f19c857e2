"""Vectors of queries, texts and items, by the provider of each model: limited in time, cached for queries, traced.

Holds no database connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from skein_kit.errors import ServiceUnavailable
from skein_kit.telemetry import logs
from skein_kit.telemetry.metrics import EMBEDDER_TEXTS, EMBEDDER_TIME, TRACING
from skein_recall.embedded_model.embedder import EmbedderBusy, EmbedderClosed
from skein_recall.embedded_model.token_vectors import QueryTokens, pack
from skein_recall.embedded_model.weights import WeightsUnavailable
from skein_recall.errors import ModelNotFound, ModelResponseInvalid, ModelUnavailable
from skein_recall.models.model import Purpose
from skein_recall.providers.openai import OpenAIProvider
from skein_recall.providers.provider import QueryEmbedding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from numpy.typing import NDArray

    from skein_kit.outbound.fetch import SafeHttpClient
    from skein_recall.embedded_model.embedder import LocalEmbedder, LocalEmbedders
    from skein_recall.models.model import EmbeddingModel
    from skein_recall.providers.api_keys import ApiKeys
    from skein_recall.providers.provider import Provider

    # Tenant, table and creation of the model, digest of the text with its prefix. A dropped model's name may come back.
    _QueryKey = tuple[UUID, str, datetime, bytes]

log = logs.get("recall")
# Shorter texts are cut into chunks in less time than a thread takes to answer.
_LONG_CHARACTERS = 4000
# The tokens of a longer text are not compared: it is no question. Turns of dialogues, of 150 to 400 characters, lose a
# point of evidence by it.
MAX_QUESTION_CHARACTERS = 200
# The rest of a call's time is left to the search itself.
_SHARE_OF_TIME = 0.5
# 3 kB each: the vector, and 128 bytes for each token.
CACHED_QUERIES = 1024


@dataclass(frozen=True, slots=True)
class IndexItem:
    """An item to embed: its text at one revision."""

    item_id: UUID
    revision: int
    text: str


@dataclass(frozen=True, slots=True)
class ChunkedItems:
    """Items whose texts are cut into chunks; a blank text has none."""

    items: Sequence[IndexItem]
    chunks: list[list[str]]

    @property
    def count(self) -> int:
        """The number of chunks."""
        return sum(map(len, self.chunks))


@dataclass(frozen=True, slots=True, eq=False)
class ItemEmbeddings:
    """What a model makes of items, by item."""

    # Float32 arrays (chunks, dimensions), of unit length per row.
    vectors: Mapping[UUID, NDArray[np.float32]]
    # The packed codes of the tokens of each chunk; empty where there are none.
    tokens: Mapping[UUID, Sequence[bytes]] = field(default_factory=dict)


class QueryCache:
    """Embeddings of the latest queries, by a digest of the text. Concurrent callers of one query share one embedding.

    Keys include the tenant: the time of a reply must not tell whether another tenant had the same query.
    """

    def __init__(self, *, max_queries: int = CACHED_QUERIES) -> None:
        self._max_queries = max_queries
        self._embeddings: OrderedDict[_QueryKey, QueryEmbedding] = OrderedDict()
        self._pending: dict[_QueryKey, asyncio.Task[QueryEmbedding]] = {}

    async def get(
        self, tenant_id: UUID, model: EmbeddingModel, text: str, embed: Callable[[], Awaitable[QueryEmbedding]]
    ) -> QueryEmbedding:
        """Return the embedding of a text, whose vector is read-only as it is shared; `embed` it if it is not cached.

        The cancellation of one caller does not stop the embedding for others.
        """
        key = tenant_id, model.table_name, model.create_time, blake2b(text.encode(), digest_size=16).digest()
        if (embedding := self._embeddings.get(key)) is not None:
            self._embeddings.move_to_end(key)
            return embedding
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.create_task(self._embed(key, embed))
            pending.add_done_callback(lambda task: self._on_done(key, task))
        return await asyncio.shield(pending)

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the embeddings of a tenant, pending ones included; None: of every tenant."""
        for key in [key for key in self._embeddings if tenant_id in (None, key[0])]:
            del self._embeddings[key]
        for key in [key for key in self._pending if tenant_id in (None, key[0])]:
            del self._pending[key]

    async def _embed(self, key: _QueryKey, embed: Callable[[], Awaitable[QueryEmbedding]]) -> QueryEmbedding:
        embedding = await embed()
        embedding.vector.flags.writeable = False
        if self._pending.get(key) is asyncio.current_task():
            self._embeddings[key] = embedding
        while len(self._embeddings) > self._max_queries:
            self._embeddings.popitem(last=False)
        return embedding

    def _on_done(self, key: _QueryKey, task: asyncio.Task[QueryEmbedding]) -> None:
        if self._pending.get(key) is task:
            del self._pending[key]
        if not task.cancelled():
            # Without this, asyncio reports the error when every caller was cancelled.
            task.exception()


class EmbeddedProvider:
    """An embedded model as a `Provider`."""

    def __init__(self, embedder: LocalEmbedder, *, passage_prefix: str) -> None:
        """Use an embedder; its owner closes it."""
        self._embedder = embedder
        self._passage_prefix = passage_prefix

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return an array (texts, 384). Raises ServiceUnavailable when too many texts wait."""
        try:
            return await self._embedder.embed(texts)
        except (EmbedderBusy, EmbedderClosed):
            # Writers leave their items to the backlog.
            raise ServiceUnavailable(service="recall") from None

    async def embed_with_tokens(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], Sequence[bytes] | None]:
        """Return an array (texts, 384), and the packed codes of each text's tokens. Raises as `embed` does."""
        try:
            vectors, tokens = await self._embedder.embed_with_tokens(texts)
        except (EmbedderBusy, EmbedderClosed):
            raise ServiceUnavailable(service="recall") from None
        return vectors, None if tokens is None else [pack(each) for each in tokens]

    async def embed_query(self, text: str, *, seconds: float) -> QueryEmbedding:
        """Embed a query. The caller limits the time: a run of the model cannot be stopped."""
        vectors, tokens = await self._embedder.embed_with_tokens([text])
        if tokens is None or len(text) > MAX_QUESTION_CHARACTERS:
            return QueryEmbedding(vectors[0])
        return QueryEmbedding(vectors[0], QueryTokens(tokens[0], self._embedder.words_of_tokens(text)))

    def chunks(self, text: str) -> list[str]:
        """Cut a text into chunks by the model's own tokens."""
        return self._embedder.chunks(text, prefix=self._passage_prefix)


class ProviderRegistry:
    """The providers of one process, each created on first use."""

    def __init__(self, embedders: LocalEmbedders, outbound: SafeHttpClient, keys: ApiKeys) -> None:
        self._embedders = embedders
        self._outbound = outbound
        self._keys = keys
        self._endpoints: dict[str, tuple[EmbeddingModel, OpenAIProvider]] = {}

    @property
    def has_tokens(self) -> bool:
        """Whether embedded models return codes of tokens."""
        return self._embedders.has_tokens

    async def get(self, model: EmbeddingModel) -> Provider:
        """Return the provider of a model, when an embedded one is loaded.

        Raises ModelNotFound when only callers have its vectors, and ModelUnavailable when this process lacks weights.
        """
        if not model.can_embed:
            raise ModelNotFound(model=model.model)
        if model.endpoint is None:
            try:
                embedder = await self._embedders.get(model.model)
            except WeightsUnavailable as error:
                log.warning("model_unavailable", model=model.model, why=str(error))
                raise ModelUnavailable(model=model.model, cause=str(error)) from None
            return EmbeddedProvider(embedder, passage_prefix=model.passage_prefix)
        cached = self._endpoints.get(model.model)
        # A dropped model's name may have been registered again.
        if cached is None or (cached[0].create_time, cached[0].endpoint) != (model.create_time, model.endpoint):
            provider = OpenAIProvider(model, model.endpoint, self._outbound, key=self._keys.get(model.model))
            cached = self._endpoints[model.model] = model, provider
        return cached[1]


class TextEmbedder:
    """Embeds with every model that this cluster can embed with. Vectors are float32 and of unit length.

    Those of texts in scripts that a model cannot read are shorter.
    """

    def __init__(self, providers: ProviderRegistry, *, query_seconds: float) -> None:
        """Limit the embedding of a query to `query_seconds`."""
        self._providers = providers
        self._query_seconds = query_seconds
        self._queries = QueryCache()

    async def embed_query(
        self,
        model: EmbeddingModel,
        text: str,
        *,
        tenant_id: UUID,
        seconds: float,
        purpose: Purpose = Purpose.QUERY,
    ) -> QueryEmbedding | None:
        """Return the embedding of a query, whose vector is read-only; None when the model fails or is late.

        A stored text that is searched for its likes is a passage. The call takes at most half of the `seconds` that it
        has left.
        """
        limit = min(self._query_seconds, seconds * _SHARE_OF_TIME)
        text = model.prefixed(text, purpose)

        async def embed() -> QueryEmbedding:
            return await (await self._providers.get(model)).embed_query(text, seconds=limit)

        try:
            with _span(1):
                async with asyncio.timeout(limit):
                    return await self._queries.get(tenant_id, model, text, embed)
        except (ModelUnavailable, ModelResponseInvalid):
            # The provider has logged it.
            return None
        except Exception as error:  # noqa: BLE001 - whatever failed, a search by words still works.
            log.warning("query_embedding_failed", error=type(error).__name__)
            return None

    def drop(self, tenant_id: UUID | None) -> None:
        """Remove the cached embeddings of a tenant's queries; None: of every tenant's."""
        self._queries.drop(tenant_id)

    def has_tokens(self, model: EmbeddingModel) -> bool:
        """Return whether items get codes of tokens beside their vectors."""
        return model.has_tokens and self._providers.has_tokens

    async def embed_texts(self, model: EmbeddingModel, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
        """Return an array (texts, dimensions); what exceeds the model's window is not read.

        A vector is as long as the share of its text in scripts that the model can read: its products with others claim
        no more than that.
        """
        provider = await self._providers.get(model)
        with _span(len(texts)):
            vectors = await provider.embed([model.prefixed(text, purpose) for text in texts])
        return vectors * _readable_shares(model, texts)[:, np.newaxis]

    async def embed_items(self, model: EmbeddingModel, items: Sequence[IndexItem]) -> ItemEmbeddings:
        """Embed items; a blank text has no chunks."""
        return await self.embed_chunks(model, await self.chunk(model, items))

    async def chunk(self, model: EmbeddingModel, items: Sequence[IndexItem]) -> ChunkedItems:
        """Cut the items' texts into chunks that fit the model's window."""
        provider = await self._providers.get(model)
        if sum(len(item.text) for item in items) > _LONG_CHARACTERS:
            return ChunkedItems(items, await asyncio.to_thread(_chunks, provider, items))
        return ChunkedItems(items, _chunks(provider, items))

    async def embed_chunks(self, model: EmbeddingModel, chunked: ChunkedItems) -> ItemEmbeddings:
        """Embed the chunks of items."""
        if not chunked.items:
            return ItemEmbeddings({})
        texts = [model.prefixed(chunk, Purpose.PASSAGE) for chunks in chunked.chunks for chunk in chunks]
        provider = await self._providers.get(model)
        with _span(len(texts)):
            vectors, codes = await provider.embed_with_tokens(texts)
        shares = _readable_shares(model, texts)
        vectors = vectors * shares[:, np.newaxis]
        if codes is not None:
            # Unknown tokens are all alike, whatever they say.
            codes = [code if share else b"" for code, share in zip(codes, shares.tolist(), strict=True)]
        counts = [len(chunks) for chunks in chunked.chunks]
        ends = np.cumsum(counts)
        ids = [item.item_id for item in chunked.items]
        tokens = {} if codes is None else {
            item_id: codes[end - count : end] for item_id, count, end in zip(ids, counts, ends.tolist(), strict=True)
        }  # fmt: skip
        return ItemEmbeddings(dict(zip(ids, np.split(vectors, ends[:-1]), strict=True)), tokens)


def _readable_shares(model: EmbeddingModel, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the share (texts,) of each text in scripts that the model can read."""
    return np.array([model.readable_share(text) for text in texts], dtype=np.float32)


def _chunks(provider: Provider, items: Sequence[IndexItem]) -> list[list[str]]:
    return [provider.chunks(item.text) if item.text.strip() else [] for item in items]


def observe_batch(texts: int, seconds: float) -> None:
    """Measure a batch of the embedded model; runs on the model's own thread."""
    EMBEDDER_TEXTS.inc(texts)
    EMBEDDER_TIME.observe(seconds)


@contextmanager
def _span(texts: int) -> Iterator[None]:
    if not TRACING.on:
        yield
        return
    with TRACING.tracer.start_as_current_span(
        "embed",
        attributes={"skein.texts": texts},
        # The words of an error may quote the text.
        record_exception=False,
        set_status_on_exception=False,
    ):
        yield
