"""New facts whose keys other facts have: those are found, and changed, returned or ended, as the write asks."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.errors import PermissionMissing
from skein_memory.memories import convert, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction
    from skein_kit.identity.identity_token import Caller
    from skein_memory.memories.model import Draft, FactKey, Memory
    from skein_memory.memories.store import MemoryStore
    from skein_memory.validation import ItemPaths

    CreateRequest = pb.CreateMemoryRequest | pb.BatchCreateMemoriesRequest

_ANSWERED = frozenset({pb.ON_CONFLICT_UPDATE, pb.ON_CONFLICT_RETURN, pb.ON_CONFLICT_SUPERSEDE})
_RETURNING = frozenset({pb.ON_CONFLICT_RETURN, pb.ON_CONFLICT_SUPERSEDE})
_READ = "memory.read"
_WRITE = "memory.write"
# Looks for the fact that has a key; each further one means that another write has ended meanwhile.
_MAX_LOOKS = 20
# A fact has no secret.
_UPDATABLE = convert.UPDATABLE - {"secret_value"}
# An update cannot change these.
_REFUSED_FIELDS = frozenset({"external_id", "embedding"})


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyConflict:
    """The fact that has the key of a new one, and its next revision by that one; the same if nothing changes."""

    before: Memory
    after: Memory
    # The fields of the new one that the caller sets.
    fields: frozenset[str]
    # The new one is stored and takes the key; the next revision of the other one has an end and no key.
    is_superseded: bool = False
    # The new one says the same: it is not stored, and the scores of the other one rise.
    is_reinforced: bool = False

    @property
    def is_change(self) -> bool:
        """Return whether the fact changes."""
        return self.after is not self.before or "derived_from" in self.fields

    @property
    def update_mask(self) -> tuple[str, ...]:
        """Return the fields that the new one sets, as an update of the fact names them."""
        unarchived = {"archive_time"} if self.before.draft.archive_time is not None else set[str]()
        return tuple(sorted((self.fields & _UPDATABLE) | unarchived))


def is_answered(request: CreateRequest) -> bool:
    """Return whether a request wants facts whose keys are taken changed or returned."""
    return request.on_conflict in _ANSWERED and not request.keep_times


def is_superseding(request: CreateRequest) -> bool:
    """Return whether a request wants facts whose keys are taken ended, and its own stored beside them."""
    return request.on_conflict == pb.ON_CONFLICT_SUPERSEDE


def check_may_return(caller: Caller, request: CreateRequest) -> None:
    """Reject a caller without the right to read the stored fact that it would get, or to change it in place.

    Raises PermissionMissing.
    """
    if request.on_conflict == pb.ON_CONFLICT_UPDATE and _WRITE not in caller.permissions:
        raise PermissionMissing(permission=_WRITE)
    if request.on_conflict in _RETURNING and _READ not in caller.permissions:
        raise PermissionMissing(permission=_READ)


async def find_conflicts(
    tx: Transaction,
    store: MemoryStore,
    caller: Caller,
    new: Mapping[int, Memory],
    messages: Sequence[pb.Memory],
    paths: ItemPaths,
    request: CreateRequest,
    *,
    at: datetime,
) -> dict[int, KeyConflict]:
    """Lock and return, by index, the facts that have the keys of new ones, if the request wants them.

    Those that the caller may not see are left out, so that the claim of the key is refused. Raises ReadersWidened and
    what an update with these fields raises.
    """
    refused = frozenset[str]() if is_superseding(request) else _REFUSED_FIELDS
    keys = {
        index: key
        for index, memory in new.items()
        if (key := memory.fact_key) is not None and not _set_fields(messages[index]) & refused
    }
    if not is_answered(request) or not keys:
        return {}
    tenant_id = caller.require_tenant()
    holders = await lock_holders(tx, store, tenant_id, keys.values())
    conflicts = {}
    for index, key in keys.items():
        before = holders.get(key)
        if before is None or not before.is_visible(at):
            continue
        fields = _set_fields(messages[index])
        after = before
        if request.on_conflict == pb.ON_CONFLICT_UPDATE:
            with paths.prefix(index):
                after = _updated(before, new[index], fields, at=at, by=caller.principal)
        else:
            fields = frozenset()
        # "I no longer live in Graz" leaves the fact alone that says Oslo.
        is_other = _denies_another(before.draft, new[index].draft)
        is_superseded = is_superseding(request) and not is_other and not _say_the_same(before.draft, new[index].draft)
        if is_superseded:
            after = _ended(before, new[index], at=at, by=caller.principal)
        conflicts[index] = KeyConflict(
            before=before,
            after=after,
            fields=fields,
            is_superseded=is_superseded,
            is_reinforced=is_superseding(request)
            and not is_superseded
            and not is_other
            and request.on_similar == pb.ON_SIMILAR_REINFORCE,
        )
    return conflicts


async def lock_holders(
    tx: Transaction, store: MemoryStore, tenant_id: UUID, keys: Iterable[FactKey]
) -> dict[FactKey, Memory]:
    """Lock and return the facts that have keys, as far as the caller sees them."""
    holders: dict[FactKey, Memory] = {}
    moved = set(keys)
    for _ in range(_MAX_LOOKS):
        if not moved:
            break
        holder_ids = await names.fact_key_holders(tx, tenant_id, [*moved])
        locked = await store.lock_memories(tx, tenant_id, [*holder_ids.values()])
        candidates = {key: locked[id_] for key, id_ in holder_ids.items() if key is not None and id_ in locked}
        holders |= {
            key: memory
            for key, memory in candidates.items()
            if memory.fact_key is not None and memory.fact_key.folded == key.folded
        }
        # While the lock was awaited, another write gave the key to another fact.
        moved = candidates.keys() - holders.keys()
    return holders


def mask_of(message: pb.Memory, request: CreateRequest) -> tuple[str, ...] | None:
    """Return the fields that a new fact sets of one with its key; empty if that one stays, None to refuse it."""
    fields = _set_fields(message)
    if not is_answered(request) or is_superseding(request) or fields & _REFUSED_FIELDS:
        return None
    return tuple(sorted(fields & _UPDATABLE)) if request.on_conflict == pb.ON_CONFLICT_UPDATE else ()


def _set_fields(message: pb.Memory) -> frozenset[str]:
    """Return the fields of a new memory that its caller sets, by the names of an update."""
    present = {field.name.removesuffix("_json") for field, _ in message.ListFields()}
    return frozenset({"expire_time" if name == "ttl" else name for name in present})


def _say_the_same(before: Draft, new: Draft) -> bool:
    """Return whether two facts have the same text and data, or the same extracted value in other words."""
    if before.content_hash == new.content_hash:
        return True
    value = _extracted_value(new)
    return value is not None and value == _extracted_value(before)


def _denies_another(before: Draft, new: Draft) -> bool:
    """Return whether an extracted fact denies another value than an earlier fact has."""
    denied = _extracted_value(new)
    if denied is None or not denied[-1]:
        return False
    value, earlier = str(denied[-2]).casefold(), _extracted_value(before)
    said = before.content if earlier is None else str(earlier[-2])
    return value not in said.casefold() if earlier is None else value != said.casefold()


def _extracted_value(draft: Draft) -> tuple[object, ...] | None:
    """Return what an extractor found in a fact's text; None for a fact of another writer."""
    metadata = json.loads(draft.metadata) if draft.metadata else None
    extracted = metadata.get("extracted") if isinstance(metadata, dict) else None
    if not isinstance(extracted, dict):
        return None
    return tuple(extracted.get(name) for name in ("about", "predicate", "value", "is_negated"))


def _ended(before: Memory, new: Memory, *, at: datetime, by: str) -> Memory:
    """Return the next revision of a fact that a new one supersedes: without its key, and true until the new one is."""
    draft = before.draft
    begin = draft.valid_from_time
    end = next((time for time in (new.draft.valid_from_time, at) if time and (begin is None or time >= begin)), None)
    ends = [time for time in (draft.valid_to_time, end) if time is not None]
    return before.revise(replace(draft, key=None, valid_to_time=min(ends, default=None)), at=at, by=by)


def _updated(before: Memory, new: Memory, fields: frozenset[str], *, at: datetime, by: str) -> Memory:
    """Return the next revision of a fact, with the fields that a new one sets; itself if nothing changes."""
    changes = {name: getattr(new.draft, name) for name in fields & _UPDATABLE - {"derived_from"}}
    draft = replace(before.draft, **{"archive_time": None, **changes})
    if draft == before.draft:
        return before
    draft.check(at)
    if fields & convert.READER_FIELDS:
        draft.check_has_readers(at)
    return before.revise(draft, at=at, by=by)
