"""The registry of embedding models in the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.errors import TransactionConflict
from skein_kit.ids import now
from skein_recall.errors import ModelActive, ModelChosen, ModelDroppedSince, ModelExists, ModelInUse, ModelNotFound
from skein_recall.models.model import EmbeddingModel, ModelChoice, ModelDraft
from skein_recall.models.similarity_scale import SimilarityScale
from skein_recall.queries import QUERIES

_Result = TypeVar("_Result")
# Of those that chose a model, in the error that its deletion raises.
_NAMED_TENANTS = 10
_REGISTER_ERRORS = {"embedding_models_pkey": ModelExists, "embedding_models_table_key": ModelExists}
_DROP_ERRORS = {"unknown": ModelNotFound, "active": ModelActive, "in use": ModelInUse}


class ModelStore:
    """The registered models, and which of them is active."""

    def __init__(self, database: Database, *, settle_seconds: float) -> None:
        """`settle_seconds`: after them, every process knows of a change."""
        self._database = database
        self._settle_time = timedelta(seconds=settle_seconds)

    async def list_models(self) -> list[EmbeddingModel]:
        async with self._database.global_transaction() as tx:
            return await self.list_models_in(tx)

    async def list_models_in(self, tx: Transaction) -> list[EmbeddingModel]:
        """Return every registered model, by name, as a transaction sees them."""
        return [EmbeddingModel.of_row(row) for row in await tx.rows(QUERIES["list_models"])]

    async def read_choice(self, tenant_id: UUID) -> ModelChoice:
        """Return the model that a tenant chose, and the former one while processes may not know of the change."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            row = await tx.row(QUERIES["read_choice"], tenant_id=tenant_id)
        if row is None:
            return ModelChoice()
        is_settled = now() - row["from_time"] > self._settle_time
        return ModelChoice(model=row["model"], former_model=None if is_settled else row["former_model"])

    async def read_policy_and_choice(self, tx: Transaction, tenant_id: UUID) -> tuple[str | None, str | None]:
        """Return the model that a tenant's policy names, and the one that it chose before; None: the active one."""
        wanted: str | None = await tx.value(QUERIES["read_policy_model"], tenant_id=tenant_id)
        row = await tx.row(QUERIES["read_choice"], tenant_id=tenant_id)
        return wanted, None if row is None else row["model"]

    async def choose(self, tx: Transaction, tenant_id: UUID, name: str | None, at: datetime) -> None:
        """Have a tenant search a model from now on; None: the one that is active in the cluster."""
        await tx.execute(QUERIES["insert_choice"], tenant_id=tenant_id, model=name, at=at)

    async def offer_model(self, tx: Transaction, name: str, at: datetime, *, is_offered: bool) -> None:
        """Let tenants choose a model, or end that."""
        await tx.execute(QUERIES["offer_model"], model=name, is_offered=is_offered, at=at)

    async def read_by_models(self, read: Callable[[Sequence[EmbeddingModel]], Awaitable[_Result]]) -> _Result:
        """Return what `read` returns for all models; run it once more when one of them is dropped meanwhile.

        Raises TransactionConflict when that happens again.
        """
        try:
            return await read(await self.list_models())
        except asyncpg.UndefinedTableError:
            pass
        try:
            return await read(await self.list_models())
        except asyncpg.UndefinedTableError:
            raise TransactionConflict from None

    async def register_model(self, tx: Transaction, draft: ModelDraft, at: datetime) -> EmbeddingModel:
        """Register a model and create its table of vectors. Raises ModelExists and TransactionConflict."""
        floor, ceiling = draft.similarity_scale or (None, None)
        values = {
            "model": draft.model,
            "dimensions": draft.dimensions,
            "create_time": at,
            "query_prefix": draft.query_prefix,
            "passage_prefix": draft.passage_prefix,
            "similarity_floor": floor,
            "similarity_ceiling": ceiling,
        }
        with translate_constraint_errors(_REGISTER_ERRORS):
            if draft.endpoint is None:
                table_name = await tx.value(QUERIES["register_model"], **values, provider=draft.provider)
            else:
                table_name = await tx.value(QUERIES["register_endpoint"], **values, **asdict(draft.endpoint))
        return EmbeddingModel(
            model=draft.model,
            provider=draft.provider,
            dimensions=draft.dimensions,
            table_name=table_name,
            active=False,
            create_time=at,
            endpoint=draft.endpoint,
            query_prefix=draft.query_prefix,
            passage_prefix=draft.passage_prefix,
            similarity_scale=draft.similarity_scale,
        )

    async def distribute_vectors(self, name: str) -> None:
        """Distribute a model's table of vectors, where Citus distributes the documents; without effect elsewhere.

        A call after a crash, or beside another one, does what is left. Raises TransactionConflict while tables are
        locked.
        """
        if self._database.is_citus:
            async with self._database.global_transaction() as tx:
                await tx.execute(QUERIES["distribute_vectors"], model=name)

    async def set_similarity_scale(self, tx: Transaction, name: str, scale: SimilarityScale) -> None:
        """Store the measured scale of a model's cosines, unless it has one."""
        await tx.execute(QUERIES["set_similarity_scale"], model=name, floor=scale.floor, ceiling=scale.ceiling)

    async def activate_model(self, tx: Transaction, name: str, at: datetime) -> None:
        """Make a model the active one. Readers see the former or this one, never none."""
        await tx.rows(QUERIES["lock_models"])
        await tx.execute(QUERIES["deactivate_models"], model=name, at=at)
        if await tx.execute(QUERIES["activate_model"], model=name):
            await tx.execute(QUERIES["insert_activation"], model=name, at=at)

    async def active_as_of(self, at: datetime, tenant_id: UUID | None) -> EmbeddingModel:
        """Return the model that a tenant searched at a time. Raises ModelDroppedSince when its vectors are gone."""
        activation = None
        if tenant_id is not None:
            async with self._database.transaction(tenant_id, READ_ONLY) as tx:
                activation = await tx.row(QUERIES["read_choice_as_of"], tenant_id=tenant_id, at=at)
        async with self._database.global_transaction() as tx:
            if activation is None or activation["model"] is None:
                activation = await tx.row(QUERIES["read_activation"], at=at)
            models = await self.list_models_in(tx)
        if activation is None:
            raise ModelNotFound
        for model in models:
            # A model of the same name that was registered later has other vectors.
            if model.model == activation["model"] and model.create_time <= activation["from_time"]:
                return model
        raise ModelDroppedSince(model=activation["model"])

    async def set_left_time(self, tx: Transaction, name: str, at: datetime) -> None:
        """Record when the last process may have followed a model."""
        await tx.execute(QUERIES["set_model_left_time"], model=name, at=at)

    async def delete_model(self, tx: Transaction, name: str, *, left_before: datetime) -> None:
        """Delete a model with its vectors. It is in use while a reindex of it runs, and if left after `left_before`.

        Raises ModelNotFound, ModelActive, ModelChosen and ModelInUse, and TransactionConflict while tables are locked.
        """
        result = await tx.value(QUERIES["delete_model"], model=name, left_before=left_before)
        if result == "chosen":
            rows = await tx.rows(QUERIES["list_model_tenants"], model=name, count=_NAMED_TENANTS)
            raise ModelChosen(model=name, tenant_ids=", ".join(str(row["tenant_id"]) for row in rows))
        if result in _DROP_ERRORS:
            raise _DROP_ERRORS[result](model=name)


@contextmanager
def translate_dropped(model: EmbeddingModel) -> Iterator[None]:
    """Raise ModelNotFound when the model's table is gone: it was dropped after the cached registry was read."""
    try:
        yield
    except asyncpg.UndefinedTableError:
        raise ModelNotFound(model=model.model) from None
