"""New memories that say what another one says already: found, and the other one reinforced, as the write asks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Transaction
from skein_memory.memories.model import Draft, Memory
from skein_memory.memories.near_duplicates import ComparedDraft, NearDuplicateIndex, compare_all
from skein_memory.memories.store import MemoryStore

# Raises the scores of a memory alone, within a transaction: tenant, memory, time, principal. Returns its next revision.
Reinforce = Callable[["Transaction", UUID, "Memory", datetime, str], Awaitable["Memory"]]
# More characters are compared in a thread, so that other calls run meanwhile.
_MAX_INLINE_CHARACTERS = 20_000


class SimilarWrites:
    """Finds what new memories repeat."""

    def __init__(self, store: MemoryStore, reinforce: Reinforce) -> None:
        self._store = store
        self.reinforce = reinforce

    async def find(
        self, tx: Transaction, tenant_id: UUID, new: Mapping[int, ComparedDraft], *, at: datetime
    ) -> tuple[dict[int, Memory], dict[int, int]]:
        """Return, by index, which stored memories new ones repeat, with their scores; and which earlier new ones."""
        stored = await self._read_candidates(tx, tenant_id, new.values(), at=at)
        matches, repeats = _match(new, stored)
        by_id = {memory.memory_id: memory for memory in matches.values()}
        scored = {one.memory_id: one for one in await self._store.with_scores(tx, tenant_id, [*by_id.values()], at=at)}
        return {index: scored[memory.memory_id] for index, memory in matches.items()}, repeats

    async def find_and_reinforce(
        self, tx: Transaction, tenant_id: UUID, new: Mapping[int, ComparedDraft], *, at: datetime, by: str
    ) -> tuple[dict[int, Memory], dict[int, int]]:
        """Return the same; each stored memory is reinforced once, and the transaction locks it.

        The memories are locked in the order of their ids and compared again: a new memory is stored if the other one
        was deleted or changed meanwhile.
        """
        stored = await self._read_candidates(tx, tenant_id, new.values(), at=at)
        matches, _ = _match(new, stored)
        locked = await self._store.lock_memories(tx, tenant_id, [memory.memory_id for memory in matches.values()])
        remaining = NearDuplicateIndex["Memory"]()
        visible = [memory for _, memory in sorted(locked.items(), reverse=True) if memory.is_visible(at)]
        for memory, compared in zip(visible, await compare_drafts(memory.draft for memory in visible), strict=True):
            remaining.add(compared, memory)
        matches, repeats = _match(new, remaining)
        by_id = {memory.memory_id: memory for memory in matches.values()}
        reinforced = {id_: await self.reinforce(tx, tenant_id, by_id[id_], at, by) for id_ in sorted(by_id)}
        return {index: reinforced[memory.memory_id] for index, memory in matches.items()}, repeats

    async def _read_candidates(
        self, tx: Transaction, tenant_id: UUID, new: Iterable[ComparedDraft], *, at: datetime
    ) -> NearDuplicateIndex[Memory]:
        """Read the stored memories that new ones may repeat, once for each fingerprint."""
        candidates = NearDuplicateIndex["Memory"]()
        hashes: defaultdict[UUID, set[bytes]] = defaultdict(set)
        for one in new:
            hashes[one.fingerprint].add(one.text_hash)
        for fingerprint, text_hashes in hashes.items():
            memories = await self._store.find_by_fingerprint(tx, tenant_id, fingerprint)
            visible = [memory for memory in memories if memory.is_visible(at)]
            compared_drafts = await compare_drafts(memory.draft for memory in visible)
            for memory, compared in zip(visible, compared_drafts, strict=True):
                if compared.text_hash in text_hashes:
                    candidates.add(compared, memory)
        return candidates


async def compare_drafts(drafts: Iterable[Draft]) -> Sequence[ComparedDraft]:
    """Return drafts with what their comparisons need; long ones are read in a thread."""
    drafts = list(drafts)
    count = sum(len(draft.content) + len(draft.data or "") + len(draft.metadata or "") for draft in drafts)
    return compare_all(drafts) if count <= _MAX_INLINE_CHARACTERS else await asyncio.to_thread(compare_all, drafts)


def _match(
    new: Mapping[int, ComparedDraft], stored: NearDuplicateIndex[Memory]
) -> tuple[dict[int, Memory], dict[int, int]]:
    """Return, by index, which stored memories new ones repeat, and which earlier new ones."""
    earlier = NearDuplicateIndex[int]()
    matches: dict[int, Memory] = {}
    repeats: dict[int, int] = {}
    for index, compared in new.items():
        if (earlier_index := earlier.find(compared)) is not None:
            repeats[index] = earlier_index
        elif (memory := stored.find(compared)) is not None:
            matches[index] = memory
        else:
            earlier.add(compared, index)
    return matches, repeats
