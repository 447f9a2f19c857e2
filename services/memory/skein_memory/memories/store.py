"""Memories in the database, with tags, names, stored responses and their documents in the search index."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from skein_kit.database.monthly_partitions import MonthlyPartitions
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import READ_ONLY, TxOptions
from skein_kit.errors import QuotaExceeded, RpcError
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import new_id
from skein_kit.policies.store import Policy, PolicyCache
from skein_kit.quotas.store import QuotaCounter
from skein_kit.search_text import postings
from skein_kit.search_text.postings import Document
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.facts.model import MessageState
from skein_memory.lineage import changes
from skein_memory.lineage import store as lineage
from skein_memory.lineage.model import Source
from skein_memory.links import store as link_store
from skein_memory.links.model import Link
from skein_memory.memories import level_capacity, memory_type, names, writes
from skein_memory.memories import rows as memory_rows
from skein_memory.memories.model import LEVELS, Memory
from skein_memory.memories.near_duplicates import MAX_COMPARED
from skein_memory.queries import QUERIES
from skein_memory.vault.store import Vault

# Transactions of one call that enforces capacities.
_MAX_CAPACITY_BATCHES = 5
# Facts of one message.
MAX_FACTS = 1000
# Memories that one transaction reindexes.
REINDEX_BATCH_SIZE = 50
# Expired memories that one transaction takes out of the index, and transactions of one call.
_EXPIRED_BATCH_SIZE = 200
_MAX_EXPIRED_BATCHES = 20


class MemoryStore:
    """Reads and writes memories."""

    def __init__(
        self,
        database: Database,
        *,
        idempotency: IdempotencyStore,
        quotas: QuotaCounter,
        policies: PolicyCache,
        vault: Vault,
        months: MonthlyPartitions,
    ) -> None:
        self._database = database
        self._idempotency = idempotency
        self._quotas = quotas
        self._policies = policies
        self._vault = vault
        self._months = months

    @asynccontextmanager
    async def begin_create(
        self, tenant_id: UUID, memories: Sequence[Memory], *, at: datetime
    ) -> AsyncIterator[tuple[Transaction, list[Memory]]]:
        """Begin a transaction that creates memories; yield it with the memories as readers will get them.

        So the response is known before the work, and the claim of the request can save it.
        """
        await self._months.ensure(memory.draft.create_time for memory in memories)
        options = TxOptions(plan_once=not self._may_demote_others(tenant_id))
        async with self._database.transaction(tenant_id, options) as tx:
            yield tx, await writes.score_new_memories(tx, tenant_id, self._policies, memories, at=at)

    async def prepare_months(self, times: Sequence[datetime]) -> None:
        """Prepare for memories of these times that another transaction creates."""
        await self._months.ensure(times)

    async def score_new_memories(
        self, tx: Transaction, tenant_id: UUID, memories: Sequence[Memory], *, at: datetime
    ) -> list[Memory]:
        """Return new memories with their scores."""
        return await writes.score_new_memories(tx, tenant_id, self._policies, memories, at=at)

    async def find_by_fingerprint(self, tx: Transaction, tenant_id: UUID, fingerprint: UUID) -> list[Memory]:
        """Return the newest MAX_COMPARED memories with one fingerprint that are neither deleted nor archived.

        Those of less than the neutral trust are left out: no write is dropped for them.
        """
        rows = await tx.rows(
            QUERIES["find_by_fingerprint"], tenant_id=tenant_id, fingerprint=fingerprint, count=MAX_COMPARED
        )
        memory_ids = [row["memory_id"] for row in rows]
        if not memory_ids:
            return []
        distrusted_ids = await lineage.find_distrusted(tx, tenant_id, memory_ids)
        memories = await memory_rows.read_memories(tx, tenant_id, memory_ids)
        return [memories[id_] for id_ in memory_ids if id_ in memories and id_ not in distrusted_ids]

    async def with_scores(
        self, tx: Transaction, tenant_id: UUID, memories: Sequence[Memory], *, at: datetime
    ) -> list[Memory]:
        """Return memories, in order, with their scores at the time `at`."""
        return await memory_rows.with_scores(tx, tenant_id, self._policies, memories, at=at)

    async def lock_memories(self, tx: Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Memory]:
        """Read and lock memories in the order of their ids; missing ones are left out."""
        return await writes.lock_memories(tx, tenant_id, memory_ids) if memory_ids else {}

    async def create_memories(
        self,
        tx: Transaction,
        tenant_id: UUID,
        memories: Sequence[Memory],
        documents: Sequence[Document],
        *,
        at: datetime,
        secrets: Mapping[UUID, str] = MappingProxyType({}),
        sources: Mapping[UUID, Sequence[Source]] = MappingProxyType({}),
    ) -> None:
        """Store memories, all or none, with documents, sources and the secrets of those of the vault.

        Raises ExternalIdTaken, FactKeyTaken and MemoryTypeNotAllowed, with the "index" of the memory, QuotaExceeded and
        MasterKeyMissing.
        """
        policy = await self._policies.get(tx, tenant_id)
        memory_type.check_type_allowed(policy, [memory.draft.type for memory in memories])
        await writes.insert_memories(tx, tenant_id, memories, documents, at=at, sources=sources)
        if secrets:
            await self._vault.put(tx, tenant_id, secrets, at=at)
        await self._charge_quota(tx, tenant_id, policy, memories, at=at)

    @staticmethod
    async def link_superseded(
        tx: Transaction, tenant_id: UUID, pairs: Sequence[tuple[UUID, UUID]], *, at: datetime, by: str
    ) -> None:
        """Link new memories to those that they supersede."""
        links = [
            Link.create(newer_id, older_id, "supersedes", new_id(at), time=at, at=at, by=by)
            for newer_id, older_id in pairs
        ]
        await link_store.insert(tx, tenant_id, links, at=at, by=by)

    async def end_facts(
        self,
        tenant_id: UUID,
        message: MessageState,
        revise: Callable[[Memory, datetime, str], Memory],
        *,
        at: datetime,
        by: str,
    ) -> int:
        """Revise the facts that extractors found in a message as it was before; return how many changed.

        Message or fact may have moved to another space since.
        """
        await self._months.ensure([at])
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["find_derived_of_some"], tenant_id=tenant_id, source_ids=[message.message_id], count=MAX_FACTS
            )
            ids, changed_count = sorted(row["memory_id"] for row in rows), 0
            async for _ in writes.each_space_of(tx, tenant_id, ids):
                locked = await self.lock_memories(tx, tenant_id, ids)
                changes = [
                    (fact, after)
                    for fact in locked.values()
                    if fact.is_extracted
                    and fact.is_active
                    and message.makes_outdated(fact.draft.create_time, fact.draft.metadata)
                    and (after := revise(fact, at, by)) is not fact
                ]
                for fact, after in changes:
                    await self.update_memory(tx, tenant_id, fact, after, at=at)
                changed_count += len(changes)
        return changed_count

    def _may_demote_others(self, tenant_id: UUID) -> bool:
        """Return whether new memories may demote others: then the plan depends on how many there are."""
        policy = self._policies.get_cached(tenant_id)
        return policy is None or policy.enforce_level_capacities

    @staticmethod
    async def replace_sources(
        tx: Transaction, tenant_id: UUID, memory_id: UUID, sources: Sequence[Source], *, at: datetime, by: str
    ) -> None:
        """Replace what callers declared that a locked memory was made of. Raises LineageCycle and LineageTooLong."""
        await lineage.replace_sources(tx, tenant_id, memory_id, sources, at=at, by=by)

    async def policy(self, tenant_id: UUID) -> Policy:
        async with self._database.transaction(tenant_id) as tx:
            return await self._policies.get(tx, tenant_id)

    async def replace_response(self, tenant_id: UUID, idempotency_key: IdempotencyKey, response: bytes) -> None:
        """Replace the saved response of committed work, if that is still there.

        An error is dropped: a repeat then gets the response that was expected before the commit.
        """
        if idempotency_key.request_id:
            with suppress(RpcError):
                async with self._database.transaction(tenant_id) as tx:
                    await self._idempotency.replace(tx, tenant_id, idempotency_key, response)

    async def get_memories(self, tenant_id: UUID, memory_names: Sequence[str], *, at: datetime) -> dict[str, Memory]:
        """Read memories by id or external id, deleted ones too, with their scores; return them by that name."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await names.read_by_names(tx, QUERIES["get_memories"], tenant_id, memory_names)
            memories = [memory_rows.memory_of(row) for row in rows.values()]
            memories = await memory_rows.with_scores(tx, tenant_id, self._policies, memories, at=at)
        return dict(zip(rows, memories, strict=True))

    async def lock_memory(self, tx: Transaction, tenant_id: UUID, name: str) -> Memory:
        """Read a memory, by id or external id, deleted or not, and lock it. Raises MemoryNotFound."""
        return await writes.lock_memory(tx, tenant_id, name)

    async def update_memory(
        self,
        tx: Transaction,
        tenant_id: UUID,
        before: Memory,
        after: Memory,
        *,
        at: datetime,
        event: str = "memory_updated",
        secret: str = "",
    ) -> tuple[Memory, list[Document]]:
        """Store the next revision of a locked memory, unless `after` is `before`; `secret` replaces its secret.

        Return it with its scores, and the document that needs an embedding, if any. Raises FactKeyTaken,
        MemoryTypeNotAllowed, QuotaExceeded and MasterKeyMissing.
        """
        documents: list[Document] = []
        if after is not before:
            documents = await writes.update_memory(tx, tenant_id, before, after, at=at, event=event)
            after = await self._after_update(tx, tenant_id, before, after, secret, at=at)
            await self._quotas.charge(tx, tenant_id, {"memories": int(after.is_active) - int(before.is_active)})
        (scored,) = await memory_rows.with_scores(tx, tenant_id, self._policies, [after], at=at)
        return scored, documents

    async def _after_update(
        self, tx: Transaction, tenant_id: UUID, before: Memory, after: Memory, secret: str, *, at: datetime
    ) -> Memory:
        """Update the secret and the level of a changed memory; return its latest revision."""
        policy = await self._policies.get(tx, tenant_id)
        if before.draft.type != after.draft.type:
            memory_type.check_type_allowed(policy, [after.draft.type])
        if secret:
            await self._vault.put(tx, tenant_id, {after.memory_id: secret}, at=at)
            await changes.record_secret(tx, tenant_id, after, at=at)
        if memory_type.VAULT in {before.draft.type} - {after.draft.type}:
            await self._vault.delete(tx, tenant_id, after.memory_id)
        if after.occupied_level is None or after.occupied_level == before.occupied_level:
            return after
        if not await level_capacity.enforce_capacities(
            tx, tenant_id, policy, {after.occupied_level}, at=at, by=after.updated_by
        ):
            return after
        return (await memory_rows.read_memories(tx, tenant_id, [after.memory_id]))[after.memory_id]

    async def _charge_quota(
        self, tx: Transaction, tenant_id: UUID, policy: Policy, memories: Sequence[Memory], *, at: datetime
    ) -> None:
        """Charge the quota for new memories; capped levels evict the least important. Raises QuotaExceeded."""
        by = memories[0].created_by if memories else ""
        try:
            await self._quotas.charge(tx, tenant_id, {"memories": len(memories)})
        except QuotaExceeded as error:
            if not policy.enforce_level_capacities or error.metadata.get("kind") != "memories":
                raise
            limit = int(error.metadata["limit"])
            evicted_count = await level_capacity.evict_least_important(tx, tenant_id, memories, limit, at=at, by=by)
            if not evicted_count:
                raise
            await self._quotas.charge(tx, tenant_id, {"memories": -evicted_count})
        if not policy.enforce_level_capacities:
            return
        occupied_levels = {memory.occupied_level for memory in memories if memory.occupied_level is not None}
        await level_capacity.enforce_capacities(tx, tenant_id, policy, occupied_levels, at=at, by=by)

    async def reveal_secret(self, tenant_id: UUID, name: str, *, by: str, at: datetime) -> tuple[str, str]:
        """Return a memory's id and its secret, and record that a principal read it: each call is an event of its own.

        Raises MemoryNotFound, SecretNotFound and SecretUndecryptable.
        """
        async with self._database.transaction(tenant_id) as tx:
            memory = await writes.lock_memory(tx, tenant_id, name)
            memory.check_visible(at)
            value = await self._vault.get(tx, tenant_id, memory.memory_id)
            event = Event(
                type="secret_revealed",
                entity_type="memory",
                entity_id=str(memory.memory_id),
                summary="secret revealed",
                payload={"revision": memory.revision},
            )
            # A caller of several spaces reads in all of them; the event belongs to that of the memory.
            async for _ in writes.each_space_of(tx, tenant_id, [memory.memory_id]):
                await writer.insert_events(tx, tenant_id, [event], at=at, by=by)
        return str(memory.memory_id), value

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Delete the tenant's expired responses, and expired memories from the search index.

        Return how many. Batches are small, so that no other transaction waits long for a lock; the next call continues.
        """
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await self._idempotency.delete_expired(tx, tenant_id, at)
            removed_count = await postings.remove_expired(tx, tenant_id, "memory", at=at, count=_EXPIRED_BATCH_SIZE)
        deleted_count += removed_count
        for _ in range(1, _MAX_EXPIRED_BATCHES):
            if removed_count < _EXPIRED_BATCH_SIZE:
                break
            async with self._database.transaction(tenant_id) as tx:
                removed_count = await postings.remove_expired(tx, tenant_id, "memory", at=at, count=_EXPIRED_BATCH_SIZE)
            deleted_count += removed_count
        return deleted_count

    async def enforce_capacities(self, tenant_id: UUID, *, at: datetime, by: str) -> None:
        """Demote some memories beyond the capacities of a tenant's levels. The next call continues."""
        for _ in range(_MAX_CAPACITY_BATCHES):
            async with self._database.transaction(tenant_id) as tx:
                policy = await self._policies.get(tx, tenant_id)
                moved_count = await level_capacity.enforce_capacities(tx, tenant_id, policy, LEVELS, at=at, by=by)
            if moved_count < level_capacity.BATCH_SIZE:
                return

    async def reindex_outdated(self, tenant_id: UUID, *, at: datetime, count: int) -> tuple[int, bool]:
        """Compute search text, hashes and documents of up to `count` memories again that an older release stored.

        Return how many, and whether there may be more.
        """
        reindexed_count = 0
        while reindexed_count < count:
            batch_size = min(REINDEX_BATCH_SIZE, count - reindexed_count)
            async with self._database.transaction(tenant_id) as tx:
                batch_count = await writes.reindex_outdated(tx, tenant_id, at=at, count=batch_size)
            reindexed_count += batch_count
            if batch_count < batch_size:
                return reindexed_count, False
        return reindexed_count, True
