"""Import of items in one transaction: new items are inserted, existing ones updated as the mode says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
from numpy.typing import NDArray

from skein_kit.database.transactions import Transaction
from skein_kit.errors import (
    DimensionsMismatch,
    DuplicateInBatch,
    ExternalIdTaken,
    FieldInvalid,
    RpcError,
    TransactionConflict,
)
from skein_kit.ids import new_id
from skein_kit.policies.store import Policy
from skein_kit.search_text import vector_columns
from skein_kit.search_text.postings import Document
from skein_kit.text.source_keys import source_key
from skein_memory.aliases import store as alias_store
from skein_memory.aliases.model import Alias
from skein_memory.blocks import store as block_store
from skein_memory.blocks.model import Block
from skein_memory.conflicts import store as conflict_store
from skein_memory.conflicts.convert import STATUSES
from skein_memory.conflicts.model import Resolution
from skein_memory.errors import AliasCycle, BlockExists, FactKeyTaken, MemoryNotFound
from skein_memory.events import writer
from skein_memory.events.model import Event
from skein_memory.events.writer import Revision
from skein_memory.lineage import changes
from skein_memory.lineage import convert as lineage_convert
from skein_memory.lineage import store as lineage
from skein_memory.links import store as link_store
from skein_memory.links.model import Link, LinkDraft
from skein_memory.memories import memory_type, names, writes
from skein_memory.memories.model import FactKey, Memory, documents_of
from skein_memory.queries import QUERIES
from skein_memory.source_trust import store as trust_store
from skein_memory.source_trust.model import SourceTrust
from skein_memory.tombstones import store as tombstones
from skein_memory.transfer.import_parsing import (
    ImportBatch,
    ImportItem,
    ImportMode,
    check_key_free,
    find_existing,
    find_fact_holder,
    import_error,
    merge_imported,
    unique_names,
)
from skein_memory.transfer.model import REASON_PURGED, ImportProblem

_FIRST = UUID(int=0)
_EXISTS = "MEMORY_EXISTS"


@contextmanager
def raise_on_concurrent_import(*errors: type[Exception]) -> Iterator[None]:
    """Raise TransactionConflict when a concurrent transaction has stored the same item: the import is rolled back."""
    try:
        yield
    except errors as error:
        raise TransactionConflict from error


@dataclass(kw_only=True, slots=True)
class EmbeddingImport:
    """How many embeddings were kept, and how many were not, by reason."""

    stored_count: int = 0
    recomputed: Counter[str] = field(default_factory=Counter)

    def accept(self, values: Sequence[float], dimensions: int) -> NDArray[np.float32] | None:
        """Count a memory's vector and return it as it is stored; None where it is computed again."""
        try:
            vector_columns.require_dimensions(dimensions, values)
            vector = vector_columns.normalize(values)
        except (DimensionsMismatch, FieldInvalid) as error:
            self.recomputed[error.reason] += 1
            return None
        self.stored_count += 1
        return vector

    def skip(self, values: Sequence[float]) -> None:
        """Count the embedding, if there is one, of a memory that already exists."""
        if values:
            self.recomputed[_EXISTS] += 1


class Importer:
    """The import of items in one transaction, and its results."""

    def __init__(
        self, tx: Transaction, tenant_id: UUID, policy: Policy, mode: ImportMode, *, at: datetime, by: str
    ) -> None:
        self._tx = tx
        self._tenant_id = tenant_id
        self._policy = policy
        self._mode = mode
        self._at = at
        self._by = by
        self.created: list[str] = []
        self.updated: list[str] = []
        self.unchanged: list[str] = []
        self.removed: list[str] = []
        self.errors: list[ImportProblem] = []
        # Kinds of created or updated items that have expired already.
        self.expired: list[str] = []
        self.vectors = EmbeddingImport()
        # Documents that need embeddings.
        self.documents: list[Document] = []
        # Changes of the quotas.
        self.usage = {"memories": 0, "links": 0, "blocks": 0}

    async def apply(self, batch: ImportBatch) -> None:
        """Store valid items; others become errors. Raises TransactionConflict for an item that is being stored too."""
        self.errors += batch.errors
        items = batch.items
        if "alias" in items:
            # Every change of aliases takes this lock before it locks memories.
            await self._tx.execute(QUERIES["lock_aliases"], tenant_id=self._tenant_id)
        await self._memories(items.get("memory", []))
        for kind, store in (
            ("link", self._link),
            ("source_trust", self._trust),
            ("alias", self._alias),
            ("conflict", self._conflict),
            ("block", self._block),
        ):
            for item in items.get(kind, []):
                if isinstance(item.draft, Block) and await self._was_purged(item.draft):
                    self.errors.append(ImportProblem(line_number=item.line_number, kind=kind, reason=REASON_PURGED))
                    continue
                try:
                    getattr(self, await store(item)).append(kind)
                except TransactionConflict:
                    raise
                except RpcError as error:
                    self.errors.append(import_error(item.line_number, kind, error))

    async def _memories(self, items: Sequence[ImportItem]) -> None:
        if not items:
            return
        tx, tenant_id = self._tx, self._tenant_id
        memories = await names.avoid_taken_ids(
            tx, tenant_id, [memory for item in items if isinstance(memory := item.draft, Memory)]
        )
        external_id_holders = await names.external_id_holders(
            tx, tenant_id, [memory.draft.external_id for memory in memories]
        )
        key_holders = await names.fact_key_holders(tx, tenant_id, [memory.fact_key for memory in memories])
        ids = {memory.memory_id for memory in memories} | {*external_id_holders.values(), *key_holders.values()}
        existing = await writes.lock_memories(tx, tenant_id, list(ids))
        # An expired fact loses its key to the next claim.
        keys = {
            key: id_
            for key, id_ in key_holders.items()
            if id_ not in existing or not existing[id_].is_expired(self._at)
        }
        purged_ids = await tombstones.find_purged(tx, tenant_id, memories)
        dimensions = await _dimensions(tx, tenant_id) if any(item.embedding for item in items) else 0
        new_memories: list[Memory] = []
        # Items whose memories are new or changed, with these.
        written: list[tuple[ImportItem, UUID]] = []
        embeddings: dict[UUID, NDArray[np.float32]] = {}
        claimed_names: set[object] = set()
        for item, memory in zip(items, memories, strict=True):
            candidate_ids = (memory.memory_id, external_id_holders.get(memory.draft.external_id or "", _FIRST))
            by_key = find_fact_holder(existing.get(key_holders.get(memory.fact_key, _FIRST)), memory, at=self._at)
            before = find_existing(*map(existing.get, candidate_ids), by_key, at=self._at)
            item_names = {("id", before.memory_id if before else memory.memory_id), *unique_names(memory, at=self._at)}
            try:
                memory_type.check_type_allowed(self._policy, [memory.draft.type])
                if not claimed_names.isdisjoint(item_names):
                    raise DuplicateInBatch
                claimed_names |= item_names
                if before is None and memory.memory_id in purged_ids:
                    self.errors.append(ImportProblem(line_number=item.line_number, kind="memory", reason=REASON_PURGED))
                elif before is None:
                    check_key_free(memory, keys, at=self._at)
                    new_memories.append(memory)
                    written.append((item, memory.memory_id))
                    if item.embedding and (vector := self.vectors.accept(item.embedding, dimensions)) is not None:
                        embeddings[memory.memory_id] = vector
                    self._count("created", memory)
                else:
                    self.vectors.skip(item.embedding)
                    if await self._merge(item, before, memory, keys, is_purged=memory.memory_id in purged_ids):
                        written.append((item, before.memory_id))
            except TransactionConflict:
                raise
            except RpcError as error:
                self.errors.append(import_error(item.line_number, "memory", error))
        documents = documents_of(new_memories, at=self._at, embeddings=embeddings)
        with raise_on_concurrent_import(asyncpg.UniqueViolationError, ExternalIdTaken, FactKeyTaken):
            await writes.insert_memories(tx, tenant_id, new_memories, documents, at=self._at)
        self.documents += documents
        self.usage["memories"] += len(new_memories)
        await self._sources(written)
        await self._writers(written, {memory.memory_id for memory in new_memories})

    async def _merge(
        self, item: ImportItem, before: Memory, memory: Memory, keys: Mapping[FactKey | None, UUID], *, is_purged: bool
    ) -> bool:
        """Store what an item changes of an existing memory; return whether it changed."""
        after = merge_imported(before, memory, self._mode, item.update_time, at=self._at, by=self._by)
        if after is before:
            self.unchanged.append("memory")
            return False
        if is_purged:
            self.errors.append(ImportProblem(line_number=item.line_number, kind="memory", reason=REASON_PURGED))
            return False
        # While it was expired, another memory may have taken its names: refuse before anything is written.
        is_revived = before.is_expired(self._at) and not after.is_expired(self._at)
        if is_revived or after.fact_key != before.fact_key:
            check_key_free(after, keys, at=self._at)
        if is_revived:
            await names.check_external_id_free(self._tx, self._tenant_id, after, at=self._at)
        kind = "memory_updated" if before.is_active else "memory_restored"
        with raise_on_concurrent_import(ExternalIdTaken, FactKeyTaken):
            self.documents += await writes.update_memory(
                self._tx, self._tenant_id, before, after, at=self._at, event=kind
            )
        if self._mode is ImportMode.RESTORE and before.draft.content_hash != after.draft.content_hash:
            await changes.restore_writer(self._tx, self._tenant_id, after, at=self._at)
        if memory_type.VAULT in {before.draft.type} - {after.draft.type}:
            await self._tx.execute(QUERIES["delete_secret"], tenant_id=self._tenant_id, memory_id=after.memory_id)
        self.usage["memories"] += int(after.is_active) - int(before.is_active)
        self._count("updated", after)
        return True

    async def _sources(self, written: Sequence[tuple[ImportItem, UUID]]) -> None:
        """Store what memories were made of, when all memories of the batch are there."""
        for item, memory_id in written:
            if not item.derived_from:
                continue
            try:
                sources = await lineage_convert.read_sources(
                    self._tx, self._tenant_id, item.derived_from, at=self._at, path="derived_from", is_import=True
                )
                await lineage.replace_sources(self._tx, self._tenant_id, memory_id, sources, at=self._at, by=self._by)
            except RpcError as error:
                self.errors.append(import_error(item.line_number, "memory", error))

    async def _writers(self, written: Sequence[tuple[ImportItem, UUID]], new_ids: AbstractSet[UUID]) -> None:
        """Store who wrote new memories where they come from. The importer vouches for it, so its rating counts too."""
        writers = {
            memory_id: (item.created_by or self._by, item.updated_by)
            for item, memory_id in written
            if memory_id in new_ids and {item.created_by, item.updated_by} - {"", self._by}
        }
        await changes.add_imported_writers(self._tx, self._tenant_id, writers, at=self._at, by=self._by)

    def _count(self, outcome: str, memory: Memory) -> None:
        getattr(self, outcome).append("memory")
        if memory.is_expired(self._at):
            self.expired.append("memory")

    async def _find_memories(self, *memory_names: str) -> list[UUID]:
        """Return memories by name. Raises MemoryNotFound."""
        rows = await names.read_by_names(self._tx, QUERIES["find_active"], self._tenant_id, memory_names)
        if not rows.keys() >= set(memory_names):
            raise MemoryNotFound
        return [rows[name]["memory_id"] for name in memory_names]

    def _is_unchanged(self, item: ImportItem, update_time: datetime) -> bool:
        """Return whether the existing item stays as it is."""
        if self._mode is ImportMode.MERGE:
            return item.update_time is None or item.update_time <= update_time
        return self._mode is ImportMode.SKIP

    def _update_time(self, item: ImportItem) -> datetime:
        return self._at if self._mode is ImportMode.RESTORE or item.update_time is None else item.update_time

    def _has_same_time(self, item: ImportItem, update_time: datetime) -> bool:
        """Return whether an item has no other update time than the existing one; a future time does not count."""
        return self._mode is ImportMode.RESTORE or item.update_time in {None, update_time, self._at}

    def _keeps_existing(self, item: ImportItem, update_time: datetime, *, is_same: bool) -> bool:
        """Return whether the existing item stays as it is; `is_same`: both have the same content."""
        return self._is_unchanged(item, update_time) or (is_same and self._has_same_time(item, update_time))

    async def _link(self, item: ImportItem) -> str:
        draft: Any = item.draft
        assert isinstance(draft, LinkDraft)  # noqa: S101 - by its kind.
        from_id, to_id = await self._find_memories(draft.from_name, draft.to_name)
        create_time = item.create_time or self._at
        link = replace(
            draft.create_link(from_id, to_id, at=create_time, by=self._by),
            # Its rating counts beside the importer's.
            created_by=item.created_by or self._by,
            update_time=max(create_time, item.update_time or create_time),
            record_time=self._at,
        )
        existing_links = await link_store.find_link_ids(self._tx, self._tenant_id, [link.pair])
        if link.pair not in existing_links:
            with raise_on_concurrent_import(MemoryNotFound):
                new_links = await link_store.insert(self._tx, self._tenant_id, [link], at=self._at, by=self._by)
            self.usage["links"] += len(new_links)
            return "created" if new_links else "unchanged"
        before: Link = await link_store.lock_link(self._tx, self._tenant_id, existing_links[link.pair])
        if self._is_unchanged(item, before.update_time):
            return "unchanged"
        after = before.revise(draft, at=self._at, by=self._by)
        if after is before:
            if self._has_same_time(item, before.update_time):
                return "unchanged"
            after = replace(before, revision=before.revision + 1, record_time=self._at, updated_by=self._by)
        after = replace(after, update_time=self._update_time(item))
        await link_store.replace(self._tx, self._tenant_id, before, after)
        return "updated"

    async def _trust(self, item: ImportItem) -> str:
        message: Any = item.draft
        key = source_key(message.source_key)
        row = await self._tx.row(QUERIES["lock_source_trust"], tenant_id=self._tenant_id, source_key=key)
        before = None if row is None else SourceTrust(**dict(row))
        content = {"trust": message.trust, "notes": message.notes or None}
        if before is not None:
            is_same = content == {"trust": before.trust, "notes": before.notes}
            if self._keeps_existing(item, before.update_time, is_same=is_same):
                return "unchanged"
            await self._store_revision(trust_store.revision_of(before, self._at))
        last = before.revision if before else await self._last_revision("source_trust", SourceTrust.id_of(key))
        update_time = self._update_time(item)
        columns = {
            "source_key": key,
            **content,
            "revision": last + 1,
            "update_time": update_time,
            "updated_by": self._by,
        }
        if before is None:
            columns |= {"create_time": item.create_time or update_time, "created_by": self._by}
        query = QUERIES["insert_source_trust" if before is None else "update_source_trust"]
        await self._tx.execute(query, tenant_id=self._tenant_id, **columns)
        await self._record_event("memory_source_trust_set", "source_trust", SourceTrust.id_of(key))
        await lineage.note_rating(self._tx, self._tenant_id, key)
        return "updated" if before else "created"

    async def _alias(self, item: ImportItem) -> str:
        message: Any = item.draft
        alias_id, root = await self._find_memories(message.alias_memory_id, message.canonical_memory_id)
        rows = await self._tx.rows(QUERIES["get_aliases"], tenant_id=self._tenant_id, memory_ids=[alias_id, root])
        aliases = {row["alias_memory_id"]: Alias(**dict(row)) for row in rows}
        root = aliases[root].canonical_memory_id if root in aliases else root
        followers = await self._tx.rows(
            QUERIES["list_aliases_of"],
            tenant_id=self._tenant_id,
            canonical_memory_id=alias_id,
            after=_FIRST,
            count=1,
        )
        if root == alias_id or followers:
            raise AliasCycle
        before = aliases.get(alias_id)
        content = (root, message.confidence, message.note or None)
        if before is not None:
            is_same = content == (before.canonical_memory_id, before.confidence, before.note)
            if self._keeps_existing(item, before.update_time, is_same=is_same):
                return "unchanged"
            await self._store_revision(alias_store.revision_of(before, self._at))
        last = before.revision if before else await self._last_revision("alias", str(alias_id))
        after = Alias(
            alias_memory_id=alias_id,
            canonical_memory_id=root,
            confidence=message.confidence,
            note=message.note or None,
            revision=last + 1,
            create_time=before.create_time if before else item.create_time or self._update_time(item),
            update_time=self._update_time(item),
            created_by=before.created_by if before else self._by,
            updated_by=self._by,
        )
        await self._tx.execute(QUERIES["put_alias"], tenant_id=self._tenant_id, **asdict(after))
        await self._record_event("memory_entity_resolved", "alias", str(alias_id))
        return "updated" if before else "created"

    async def _conflict(self, item: ImportItem) -> str:
        message: Any = item.draft
        a_id, b_id = sorted(await self._find_memories(message.a_memory_id, message.b_memory_id))
        canonical = (await self._find_memories(message.canonical_memory_id))[0] if message.canonical_memory_id else None
        if a_id == b_id or canonical not in {None, a_id, b_id}:
            raise MemoryNotFound
        # Concurrent resolutions of the same pair wait here.
        await self._tx.rows(QUERIES["lock_memories"], tenant_id=self._tenant_id, memory_ids=[a_id, b_id])
        rows = await self._tx.rows(QUERIES["get_resolutions"], tenant_id=self._tenant_id, a_ids=[a_id], b_ids=[b_id])
        before = Resolution(**dict(rows[0])) if rows else None
        status = STATUSES.get(message.status, "needs_review")
        content = (status, canonical, message.note or None)
        if before is not None:
            is_same = content == (before.status, before.canonical_memory_id, before.note)
            if self._keeps_existing(item, before.update_time, is_same=is_same):
                return "unchanged"
            await self._store_revision(conflict_store.revision_of(before, self._at))
        last = before.revision if before else await self._last_revision("conflict", f"{a_id}|{b_id}")
        after = Resolution(
            resolution_id=before.resolution_id if before else new_id(item.create_time or self._update_time(item)),
            a_memory_id=a_id,
            b_memory_id=b_id,
            status=status,
            canonical_memory_id=canonical,
            note=message.note or None,
            link_id=before.link_id if before else None,
            closed_time=before.closed_time if before else None,
            revision=last + 1,
            create_time=before.create_time if before else item.create_time or self._update_time(item),
            update_time=self._update_time(item),
            created_by=before.created_by if before else self._by,
            updated_by=self._by,
        )
        await self._tx.execute(QUERIES["put_resolution"], tenant_id=self._tenant_id, **asdict(after))
        await self._record_event("memory_conflict_resolved", "conflict", f"{a_id}|{b_id}")
        return "updated" if before else "created"

    async def _was_purged(self, block: Block) -> bool:
        return await tombstones.has_block(self._tx, self._tenant_id, block.block_id)

    async def _block(self, item: ImportItem) -> str:
        block: Any = item.draft
        before = await block_store.lock_if_exists(self._tx, self._tenant_id, block.block_id)
        outcome = "created"
        if before is None:
            create_time = item.create_time or item.update_time or self._at
            block = replace(block, create_time=create_time, update_time=item.update_time or create_time)
            with raise_on_concurrent_import(BlockExists):
                await block_store.insert(self._tx, self._tenant_id, block)
                self.usage["blocks"] += 1
        elif self._is_unchanged(item, before.update_time):
            return "unchanged"
        else:
            after = before.revise(block.draft, at=self._at, by=self._by, also_by=block.writers.names)
            if not before.is_active:
                after = after.undelete(at=self._at, by=self._by)
            after = replace(after, revision=before.revision + 1, update_time=self._update_time(item))
            outcome = "updated"
            if before.is_active and block_store.same(before, after) and self._has_same_time(item, before.update_time):
                outcome = "unchanged"
            else:
                await self._put_block(before, after, event="block_updated")
        for agent_id in item.agent_ids:
            try:
                is_new = await block_store.attach(self._tx, self._tenant_id, block, agent_id, at=self._at, by=self._by)
            except RpcError as error:
                self.errors.append(import_error(item.line_number, "block", error))
                continue
            outcome = "updated" if is_new and outcome == "unchanged" else outcome
        return outcome

    async def _put_block(self, before: Block, after: Block, *, event: str) -> None:
        await block_store.replace(self._tx, self._tenant_id, before, after, at=self._at, by=self._by, event=event)
        self.usage["blocks"] += int(after.is_active) - int(before.is_active)

    async def remove(self, kind: str, item_ids: Sequence[str]) -> None:
        """Delete existing items: memories and blocks can be restored, others are removed for good."""
        tx, tenant_id, at, by = self._tx, self._tenant_id, self._at, self._by
        self.removed += [kind] * len(item_ids)
        if kind == "memory":
            memories = await writes.lock_memories(tx, tenant_id, [UUID(item_id) for item_id in item_ids])
            for memory in memories.values():
                if memory.is_active:
                    deleted = memory.delete(at=at, by=by)
                    await writes.update_memory(tx, tenant_id, memory, deleted, at=at, event="memory_deleted")
                    self.usage["memories"] -= 1
        elif kind == "link":
            links = await link_store.remove(tx, tenant_id, [UUID(item_id) for item_id in item_ids], at=at, by=by)
            self.usage["links"] -= len(links)
        else:
            for item_id in item_ids:
                await self._remove_one(kind, item_id)

    async def _remove_one(self, kind: str, item_id: str) -> None:
        tx, tenant_id = self._tx, self._tenant_id
        if kind == "block":
            block = await block_store.lock_if_exists(tx, tenant_id, item_id)
            if block is not None and block.is_active:
                await self._put_block(block, block.delete(at=self._at, by=self._by), event="block_deleted")
        elif kind == "source_trust":
            row = await tx.row(QUERIES["lock_source_trust"], tenant_id=tenant_id, source_key=item_id)
            if row is not None:
                before = SourceTrust(**dict(row))
                await self._store_revision(trust_store.revision_of(before, self._at))
                await tx.execute(QUERIES["delete_source_trust"], tenant_id=tenant_id, source_key=item_id)
                await self._record_event("memory_source_trust_set", kind, before.source_trust_id)
                await lineage.note_rating(tx, self._tenant_id, item_id)
        elif kind == "alias":
            await tx.execute(QUERIES["lock_aliases"], tenant_id=tenant_id)
            for row in await tx.rows(QUERIES["get_aliases"], tenant_id=tenant_id, memory_ids=[UUID(item_id)]):
                await self._store_revision(alias_store.revision_of(Alias(**dict(row)), self._at))
                await tx.execute(QUERIES["delete_alias"], tenant_id=tenant_id, alias_memory_id=UUID(item_id))
                await self._record_event("memory_entity_separated", kind, item_id)
        elif kind == "conflict":
            a_id, _, b_id = item_id.partition("|")
            pair = {"a_ids": [UUID(a_id)], "b_ids": [UUID(b_id)]}
            for row in await tx.rows(QUERIES["get_resolutions"], tenant_id=tenant_id, **pair):
                await self._store_revision(conflict_store.revision_of(Resolution(**dict(row)), self._at))
                await tx.execute(
                    QUERIES["delete_resolution"],
                    tenant_id=tenant_id,
                    a_memory_id=row["a_memory_id"],
                    b_memory_id=row["b_memory_id"],
                )
                await self._record_event("memory_conflict_resolved", kind, item_id)

    async def _last_revision(self, kind: str, item_id: str) -> int:
        return await writer.last_revision(self._tx, self._tenant_id, kind, item_id)

    async def _store_revision(self, revision: Revision) -> None:
        await writer.insert_revisions(self._tx, self._tenant_id, [revision])

    async def _record_event(self, kind: str, entity_type: str, entity_id: str) -> None:
        event = Event(
            type=kind, entity_type=entity_type, entity_id=entity_id, summary=f"{entity_type} imported or restored"
        )
        await writer.insert_events(self._tx, self._tenant_id, [event], at=self._at, by=self._by)


async def _dimensions(tx: Transaction, tenant_id: UUID) -> int:
    """Return the dimensions of the model that the tenant searches, 0 when there is none."""
    space = await vector_columns.active_model(tx, tenant_id)
    return 0 if space is None else space.dimensions
