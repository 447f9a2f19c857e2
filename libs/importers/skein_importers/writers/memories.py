"""Memories, their vectors, and the links between them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from google.protobuf.message import Message

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein_client.client import Client
from skein_client.errors import Aborted, InvalidArgument, NotFound
from skein_client.pagination import iterate_pages
from skein_importers.records import Kind, Record
from skein_importers.writers.base import EmbeddingExists, EmbeddingSkipped, Writer, WriterContext, is_expired


class Memories(Writer):
    """Memories, by their external ids."""

    kind = Kind.MEMORY
    is_batched = True
    checks_first = True
    exists_reasons: ClassVar = frozenset({"EXTERNAL_ID_TAKEN"})
    # No reply has these fields, and ttl is part of expire_time.
    not_compared: ClassVar = frozenset({"secret_value", "embedding", "ttl"})

    async def find(self, records: Sequence[Record]) -> dict[str, Message]:
        """Return memories by their external ids."""
        names = list(dict.fromkeys(record.name for record in records))
        result: dict[str, Message] = {}
        while names:
            response = await self._api.memories.BatchGetMemories(memory_pb2.BatchGetMemoriesRequest(memory_ids=names))
            for memory in response.memories:
                # Exports use the cluster's id as external id for memories without one.
                result[memory.external_id] = result[memory.memory_id] = memory
            names = list(response.unread_ids)
        return result

    async def existing_names(self, records: Sequence[Record]) -> set[str]:
        """Return the names of existing memories, and remember expired ones."""
        result = await super().existing_names(records)
        at = datetime.now(UTC)
        for record in records:
            if record.name not in result and is_expired(record, at):
                self._context.add_expired(record.name)
        return result

    async def write(self, records: Sequence[Record]) -> None:
        """Create."""
        request = memory_pb2.BatchCreateMemoriesRequest(memories=[record.item for record in records])
        if self._context.origin:
            for memory in request.memories:
                memory.derived_from.add(kind=memory_pb2.SOURCE_KIND_IMPORT, name=self._context.origin)
        at = datetime.now(UTC)
        response = await self._write_with_times(self._api.memories.BatchCreateMemories, request, records)
        self._context.report.pending += response.pending_embedding_count
        for record in records:
            self._context.add_memory(record.name)
            self._count_expired(record, at)


class Embeddings(Writer):
    """Caller vectors. Putting an existing vector again changes nothing."""

    kind = Kind.EMBEDDING
    is_comparable = False

    def __init__(self, context: WriterContext) -> None:
        """No model is read yet."""
        super().__init__(context)
        self._models: dict[str, int] | None = None
        self._models_lock = asyncio.Lock()

    async def write(self, records: Sequence[Record]) -> None:
        """Put the vectors of one memory if the cluster has their model; otherwise it computes its own."""
        record = records[0]
        request_item: recall_pb2.PutEmbeddingRequest = record.item
        request = recall_pb2.PutEmbeddingRequest()
        request.CopyFrom(request_item)
        request.model = model_name(request_item.model)
        dimensions = len(request_item.embeddings[0].values)
        if await self._dimensions(request.model, dimensions) != dimensions:
            raise EmbeddingSkipped(f"{request_item.model} with {dimensions} dimensions is no model of this cluster")
        # The first revision: a text changed since has other vectors.
        request.revision = request.revision or 1
        request.request_id = f"import-{hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()}"
        try:
            await self._api.index.PutEmbedding(request)
        except Aborted as error:
            if error.reason != "REVISION_STALE":
                raise
            raise EmbeddingSkipped("of memories whose text has changed since") from None
        if not self._context.has_created(request_item.external_id):
            raise EmbeddingExists

    async def _dimensions(self, model: str, request_item: int) -> int:
        """Return the dimensions of the cluster's model, 0 for none; an operator registers a missing one."""
        async with self._models_lock:
            if self._models is None:
                response = await self._api.index.ListEmbeddingModels(recall_pb2.ListEmbeddingModelsRequest())
                self._models = {registered.model: registered.dimensions for registered in response.embedding_models}
            if model not in self._models and self._context.operator is not None:
                self._models[model] = await self._register(self._context.operator, model, request_item)
            return self._models.get(model, 0)

    async def _register(self, operator: Client, model: str, dimensions: int) -> int:
        embedding_model = recall_pb2.EmbeddingModel(model=model, provider="caller", dimensions=dimensions)
        try:
            await operator.index.RegisterEmbeddingModel(
                recall_pb2.RegisterEmbeddingModelRequest(embedding_model=embedding_model)
            )
        except InvalidArgument:
            return 0
        return dimensions


class Links(Writer):
    """Links between memories."""

    kind = Kind.LINK
    is_batched = True
    exists_reasons: ClassVar = frozenset({"LINK_EXISTS"})
    single_reasons: ClassVar = frozenset({"LINK_EXISTS"})
    memory_fields: ClassVar = ("from_memory_id", "to_memory_id")
    # Links name memories by external ids and are returned with cluster ids.
    not_compared: ClassVar = frozenset({"from_memory_id", "to_memory_id"})

    async def get(self, item: memory_pb2.Link) -> Message:
        """Return the link. Raises NotFound."""
        memory_fields = await self._api.memories.BatchGetMemories(
            memory_pb2.BatchGetMemoriesRequest(memory_ids=[item.from_memory_id, item.to_memory_id])
        )
        if memory_fields.not_found_ids:
            raise NotFound("There is no such memory.")
        request = memory_pb2.ListLinksRequest(
            memory_id=item.from_memory_id, direction=memory_pb2.LINK_DIRECTION_OUTGOING, page_size=1000
        )
        target_ids = {name for memory in memory_fields.memories for name in (memory.memory_id, memory.external_id)}
        async for link in iterate_pages(self._api.links.ListLinks, request, "links"):
            if link.relation == (item.relation or "related") and link.to_memory_id in target_ids:
                return link  # type: ignore[no-any-return]  # Pages are untyped.
        raise NotFound("There is no such link.")

    async def write(self, records: Sequence[Record]) -> None:
        """Create."""
        request = memory_pb2.BatchCreateLinksRequest(links=[record.item for record in records])
        await self._write_with_times(self._api.links.BatchCreateLinks, request, records)


def model_name(name: str) -> str:
    """Return a model's name in a cluster: lower case, without its publisher ("Xenova/all-MiniLM-L6-v2")."""
    return name.rsplit("/", 1)[-1].strip().lower()
