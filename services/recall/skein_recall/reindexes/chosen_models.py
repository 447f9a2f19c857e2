"""Brings a tenant to the model that its policy wants: first the vectors, then the switch.

A reindex of the tenant alone gives its items the vectors, while it searches the former model. When a scan found nothing
to embed, the tenant searches the new model, and one more scan finds what processes wrote that did not know yet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import now
from skein_kit.telemetry import logs
from skein_recall.models.model import EmbeddingModel, ModelChoice, ModelRegistry, ModelSnapshot
from skein_recall.models.store import ModelStore
from skein_recall.reindexes.model import ReindexDraft
from skein_recall.reindexes.store import ReindexStore
from skein_recall.settings import RecallSettings

# Who starts the reindex.
_STARTER = "policy"
log = logs.get("recall")


class ChosenModels:
    """The models that tenants chose."""

    def __init__(
        self,
        database: Database,
        store: ReindexStore,
        models: ModelStore,
        registry: ModelRegistry,
        settings: RecallSettings,
    ) -> None:
        self._database = database
        self._store = store
        self._models = models
        self._registry = registry
        self._texts_per_second = settings.reindex_texts_per_second
        self._settle_time = timedelta(seconds=settings.settle_seconds)

    async def prepare(self, tenant_id: UUID) -> None:
        """Start the reindex that a tenant's choice needs, and end those of former wishes.

        A model whose vectors callers bring is searched at once, as is one that the tenant searches already.
        """
        snapshot = await self._registry.models()
        if not snapshot.has_choices:
            return
        at = now()
        async with self._database.transaction(tenant_id) as tx:
            wanted, chosen = await self._models.read_policy_and_choice(tx, tenant_id)
            if wanted is not None and wanted not in snapshot.by_name:
                # It is newer than the cached registry, or was deleted meanwhile.
                log.warning("chosen_model_unknown", tenant_id=str(tenant_id), model=wanted)
                return
            target, current = _searched(snapshot, wanted), _searched(snapshot, chosen)
            for row in await self._store.list_own(tx, tenant_id):
                if row["is_of_choice"] and row["model"] not in {target.model, current.model}:
                    await self._end(tx, row["reindex_id"], row["model"], at)
            if wanted == chosen:
                return
            if target == current or not target.can_embed:
                await self._switch(tx, tenant_id, wanted, current, at)
            else:
                await self._store.start_own(tx, self._draft(target, tenant_id, at))
        self._registry.invalidate()

    async def complete(self, tenant_id: UUID) -> bool:
        """Switch a tenant to the model that it wants once all its items have vectors; return whether that was done.

        A later call ends the reindex, when the scan after the switch is done.
        """
        snapshot = await self._registry.models()
        if not snapshot.has_choices:
            return False
        at, is_switched = now(), False
        async with self._database.transaction(tenant_id) as tx:
            wanted, chosen = await self._models.read_policy_and_choice(tx, tenant_id)
            if wanted is not None and wanted not in snapshot.by_name:
                return False
            target, current = _searched(snapshot, wanted), _searched(snapshot, chosen)
            for row in await self._store.list_own(tx, tenant_id):
                if row["model"] != target.model or not row["is_done"]:
                    continue
                if wanted != chosen:
                    await self._switch(tx, tenant_id, wanted, current, at)
                    await self._store.settle(tx, row["reindex_id"], at + self._settle_time)
                    is_switched = True
                elif row["is_of_choice"]:
                    await self._end(tx, row["reindex_id"], row["model"], at)
        self._registry.invalidate()
        return is_switched

    async def _switch(
        self, tx: Transaction, tenant_id: UUID, wanted: str | None, former: EmbeddingModel, at: datetime
    ) -> None:
        await self._models.choose(tx, tenant_id, wanted, at)
        await self._models.set_left_time(tx, former.model, at)
        log.info("model_chosen", tenant_id=str(tenant_id), model=wanted, former_model=former.model)

    async def _end(self, tx: Transaction, reindex_id: UUID, model: str, at: datetime) -> None:
        await self._store.cancel_reindex(tx, reindex_id, at)
        await self._models.set_left_time(tx, model, at)

    def _draft(self, model: EmbeddingModel, tenant_id: UUID, at: datetime) -> ReindexDraft:
        return ReindexDraft(
            model=model.model,
            only_tenant_id=tenant_id,
            texts_per_second=self._texts_per_second,
            settle_time=at + self._settle_time,
            at=at,
            created_by=_STARTER,
        )


def _searched(snapshot: ModelSnapshot, chosen: str | None) -> EmbeddingModel:
    """Return the model of a choice; None: the one that is active in the cluster."""
    return replace(snapshot, choice=ModelChoice(model=chosen)).active
