"""The cluster as pc2 sees it: public RPCs through the gateway, with one API key."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from grpc import aio

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.recall.v1 import recall_pb2, recall_pb2_grpc
from skein_kit.call import AUTHORIZATION_KEY, REQUEST_ID_KEY
from skein_pc2.errors import STORAGE_ERROR, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable

_ASK_SECONDS = 1.5
_ACCEPTED_SECONDS = 10.0
_REFUSED_SECONDS = 1.0
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,128}")


class Api:
    """Calls on behalf of the assistants. Each takes the sender's request id, so that logs tell one story."""

    def __init__(self, channel: aio.Channel, key: Callable[[], str]) -> None:
        """`key` returns the API key, or nothing while there is none."""
        self._key = key
        self._memories: memory_pb2_grpc.MemoryServiceAsyncStub = memory_pb2_grpc.MemoryServiceStub(channel)
        self._recall: recall_pb2_grpc.RecallServiceAsyncStub = recall_pb2_grpc.RecallServiceStub(channel)
        self._auth: auth_pb2_grpc.AuthServiceAsyncStub = auth_pb2_grpc.AuthServiceStub(channel)
        self._dimensions: dict[str, int] = {}
        self._accepted = False
        self._ask_again = 0.0

    def has_key(self) -> bool:
        """Say whether there is an identity to act with."""
        return bool(self._key())

    async def is_accepted(self) -> bool:
        """Say whether the gateway answers to the key; asked anew every few seconds."""
        loop = asyncio.get_running_loop()
        if self.has_key() and loop.time() >= self._ask_again:
            try:
                await self._auth.GetMe(auth_pb2.GetMeRequest(), timeout=_ASK_SECONDS, metadata=self._metadata(""))
                self._accepted = True
            except aio.AioRpcError:
                self._accepted = False
            self._ask_again = loop.time() + (_ACCEPTED_SECONDS if self._accepted else _REFUSED_SECONDS)
        return self._accepted

    async def create_memory(self, memory: memory_pb2.Memory, *, request_id: str, seconds: float) -> memory_pb2.Memory:
        """Store one memory and return it."""
        request = memory_pb2.CreateMemoryRequest(memory=memory)
        response = await self._memories.CreateMemory(request, timeout=seconds, metadata=self._metadata(request_id))
        return response.memory

    async def get_memory(self, memory_id: str, *, request_id: str, seconds: float) -> memory_pb2.Memory:
        """Read one memory by either of its ids."""
        request = memory_pb2.GetMemoryRequest(memory_id=memory_id)
        response = await self._memories.GetMemory(request, timeout=seconds, metadata=self._metadata(request_id))
        return response.memory

    async def recall(
        self, request: recall_pb2.RecallRequest, *, request_id: str, seconds: float
    ) -> recall_pb2.RecallResponse:
        """Find memories."""
        return await self._recall.Recall(request, timeout=seconds, metadata=self._metadata(request_id))

    async def dimensions(self, model: str, *, request_id: str, seconds: float) -> int | None:
        """Return the length of a model's vectors; None for a model that is not known."""
        if model and model not in self._dimensions:
            response = await self._recall.ListEmbeddingModels(
                recall_pb2.ListEmbeddingModelsRequest(), timeout=seconds, metadata=self._metadata(request_id)
            )
            self._dimensions = {known.model: known.dimensions for known in response.embedding_models}
        return self._dimensions.get(model)

    def _metadata(self, request_id: str) -> tuple[tuple[str, str], ...]:
        key = self._key()
        if not key:
            message = "Skein is starting: there is no identity to act with yet"
            raise Rejected(STORAGE_ERROR, message)
        credential = (AUTHORIZATION_KEY, f"Bearer {key}")
        # Metadata takes printable ASCII; another id stays with its sender.
        return (credential, (REQUEST_ID_KEY, request_id)) if _PRINTABLE.fullmatch(request_id) else (credential,)
