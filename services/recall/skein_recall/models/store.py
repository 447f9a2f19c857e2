"""The registry of embedding models."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import TransactionConflict
from skein_kit.idempotency.store import IdempotencyStore
from skein_recall import convert as wire
from skein_recall.errors import ModelActive, ModelExists, ModelInUse, ModelNotFound, VectorsMissing
from skein_recall.models import reindex_store
from skein_recall.models.model import EmbeddingModel, ModelSnapshot
from skein_recall.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_recall.models.model import ModelDraft
    from skein_recall.models.reindex_store import Start

Answer = TypeVar("Answer")

_REFUSALS = {"embedding_models_pkey": ModelExists, "embedding_models_table_key": ModelExists}
_DROP_REFUSALS = {"unknown": ModelNotFound, "active": ModelActive, "in use": ModelInUse}
# A table comes when for a moment nobody writes documents, and goes when nobody reads them: that moment is looked for so
# many times, each time so briefly that nobody notices.
_ATTEMPTS = 20
_PAUSE_SECONDS = 0.1


class ModelStore:
    """The registered models and which of them is in force."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._requests = IdempotencyStore(database, "recall")

    async def list_models(self) -> list[EmbeddingModel]:
        """Return every registered model, by name."""
        async with self._database.shared() as tx:
            return await _listed(tx)

    async def register_model(
        self, draft: ModelDraft, at: datetime, once: IdempotencyKey
    ) -> pb.RegisterEmbeddingModelResponse:
        """Register a model and make its table, once for each request; refuse with ModelExists.

        Answers that nobody can ask for any more are let go of: registrations are too rare for a job.
        """
        with translate_constraint_errors(_REFUSALS):
            return await _patiently(lambda: self._register(draft, at, once))

    async def _register(
        self, draft: ModelDraft, at: datetime, once: IdempotencyKey
    ) -> pb.RegisterEmbeddingModelResponse:
        async with self._database.transaction(NO_TENANT) as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.RegisterEmbeddingModelResponse.FromString(first)
            model = await _registered(tx, draft, at)
            response = pb.RegisterEmbeddingModelResponse(embedding_model=wire.embedding_model(model))
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
            await self._requests.delete_expired(tx, NO_TENANT, at)
            return response

    async def set_active_model(
        self, name: str, *, force: bool, follow: Start, at: datetime, once: IdempotencyKey
    ) -> pb.SetActiveModelResponse:
        """Put a model in force, once for each request; refuse with VectorsMissing unless it is forced.

        The model before and this one are looked over once more, as `follow` says: until every process knows, some write
        for the one and some for the other.
        """
        async with self._database.operator() as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.SetActiveModelResponse.FromString(first)
            models = ModelSnapshot({model.model: model for model in await _listed(tx)})
            chosen = models.named(name)
            former = next((model for model in models.every.values() if model.active), None)
            if former is None or former.model != chosen.model:
                lacks = {model.model: await reindex_store.lacking(tx, model) for model in (chosen, former) if model}
                missing = lacks[name]
                if missing is not None and not force:
                    raise VectorsMissing(model=name, tenants=missing.get("tenants"), items=missing.get("items"))
                await tx.execute(QUERIES["set_active_model"], model=name, at=at)
                # In one order, so that two who switch wait for one another.
                for model in sorted(lacks):
                    if models.every[model].embeds:
                        await reindex_store.begin(tx, replace(follow, model=model, whole=lacks[model] is None))
            response = pb.SetActiveModelResponse(
                embedding_model=wire.embedding_model(next(one for one in await _listed(tx) if one.model == name)),
                former_model="" if former is None else former.model,
            )
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
            return response

    async def drop_model(self, name: str, *, left_before: datetime, once: IdempotencyKey) -> pb.DropModelResponse:
        """Forget a model with its vectors, once for each request; refuse while it is in force or in use."""
        return await _patiently(lambda: self._drop(name, left_before, once))

    async def _drop(self, name: str, left_before: datetime, once: IdempotencyKey) -> pb.DropModelResponse:
        response = pb.DropModelResponse()
        async with self._database.operator() as tx:
            if (first := (await self._requests.claim(tx, NO_TENANT, once)).saved_response) is not None:
                return pb.DropModelResponse.FromString(first)
            became = await tx.value(QUERIES["drop_model"], model=name, left_before=left_before)
            if became in _DROP_REFUSALS:
                raise _DROP_REFUSALS[became](model=name)
            await self._requests.save(tx, NO_TENANT, once, response.SerializeToString())
        return response


async def _patiently(change: Callable[[], Awaitable[Answer]]) -> Answer:
    """Make a change of tables, and try again while they are busy."""
    for _ in range(_ATTEMPTS):
        try:
            return await change()
        except TransactionConflict:
            await asyncio.sleep(_PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - not a secret.
    return await change()


async def _listed(tx: Transaction) -> list[EmbeddingModel]:
    return [EmbeddingModel.of_row(row) for row in await tx.rows(QUERIES["list_models"])]


async def _registered(tx: Transaction, draft: ModelDraft, at: datetime) -> EmbeddingModel:
    values = {"model": draft.model, "dimensions": draft.dimensions, "create_time": at}
    if draft.remote is None:
        table_name = await tx.value(QUERIES["register_model"], **values, provider=draft.provider)
    else:
        table_name = await tx.value(
            QUERIES["register_endpoint"],
            **values,
            endpoint=draft.remote.endpoint,
            remote_model=draft.remote.remote_model,
            batch_size=draft.remote.batch_size,
            timeout_seconds=draft.remote.timeout_seconds,
            window_characters=draft.remote.window_characters,
        )
    return EmbeddingModel(
        model=draft.model,
        provider=draft.provider,
        dimensions=draft.dimensions,
        table_name=table_name,
        active=False,
        create_time=at,
        remote=draft.remote,
    )
