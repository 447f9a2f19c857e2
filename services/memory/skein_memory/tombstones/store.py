"""Tombstones: salted digests of the ids and contents of purged items. The items themselves are not kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from skein_kit.database.transactions import Transaction
from skein_memory.memories import memory_type
from skein_memory.memories.model import Memory, content_hash, hash_without_data
from skein_memory.queries import QUERIES

_SALT_BYTES = 32
# The type, content and data (JSON text) of a memory.
Content = tuple[str, str, str | None]
_CONTENT_WITH_DATA = "saying"
# The form of releases before migration 37: type and content without data.
_CONTENT = "content"


async def insert_memories(
    tx: Transaction,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    *,
    at: datetime,
    external_ids: Sequence[str] = (),
    contents: Sequence[Content] = (),
) -> None:
    """Write tombstones of memories before their purge: ids, external ids, and all versions of their content.

    For archived memories the caller passes `external_ids` and `contents`, which include those of earlier versions.
    """
    ids = list(memory_ids)
    external_rows = await tx.rows(QUERIES["external_ids_of"], tenant_id=tenant_id, memory_ids=ids)
    rows = await tx.rows(QUERIES["read_contents"], tenant_id=tenant_id, memory_ids=ids)
    stored_contents: list[Content] = [(row["type"], row["content"], row["data"]) for row in rows]
    salt = await _salt(tx, tenant_id)
    digests = {
        *(digest_of(salt, "memory_id", id_.bytes) for id_ in ids),
        *(digest_of(salt, "external_id", row["external_id"].encode()) for row in external_rows),
        *(
            digest_of(salt, _CONTENT_WITH_DATA, content_hash(*content))
            for content in [*stored_contents, *contents]
            if _is_identifying(*content)
        ),
        *(digest_of(salt, "external_id", external_id.encode()) for external_id in external_ids),
    }
    await _write(tx, tenant_id, digests, at=at)


async def write_blocks(tx: Transaction, tenant_id: UUID, block_ids: Sequence[str], *, at: datetime) -> None:
    """Insert tombstones of blocks before their purge."""
    salt = await _salt(tx, tenant_id)
    await _write(tx, tenant_id, {digest_of(salt, "block_id", id_.encode()) for id_ in block_ids}, at=at)


async def write_subject(tx: Transaction, tenant_id: UUID, subject_id: str, *, at: datetime) -> None:
    """Insert the tombstone of a person: the purge is repeated after a restore of an older backup."""
    salt = await _salt(tx, tenant_id)
    row = {"digest": digest_of(salt, "subject_id", subject_id.encode()), "create_time": at}
    await tx.insert(QUERIES["renew_tombstones"], tenant_id, [row])


async def list_of_purge(tx: Transaction, tenant_id: UUID, *, at: datetime) -> tuple[bytes, ...]:
    """Return the digests that a purge with this time has written, also in its earlier transactions."""
    rows = await tx.rows(QUERIES["list_tombstones"], tenant_id=tenant_id, create_time=at)
    return tuple(row["digest"] for row in rows)


async def has_block(tx: Transaction, tenant_id: UUID, block_id: str) -> bool:
    """Return whether a block was purged. For imports only: a caller may create a block with the id."""
    salt: bytes | None = await tx.value(QUERIES["read_salt"], tenant_id=tenant_id)
    if salt is None:
        return False
    digests = [digest_of(salt, "block_id", block_id.encode())]
    return bool(await tx.rows(QUERIES["find_tombstones"], tenant_id=tenant_id, digests=digests))


async def find_purged(tx: Transaction, tenant_id: UUID, memories: Sequence[Memory]) -> set[UUID]:
    """Return the ids of those memories that were purged, by id, external id or content.

    For imports and restores, which must skip them. A caller may create the same memory again.
    """
    salt: bytes | None = await tx.value(QUERIES["read_salt"], tenant_id=tenant_id)
    if salt is None or not memories:
        return set()
    digests = {memory.memory_id: _digests(salt, memory) for memory in memories}
    sorted_digests = sorted({digest for memory_digests in digests.values() for digest in memory_digests})
    rows = await tx.rows(QUERIES["find_tombstones"], tenant_id=tenant_id, digests=sorted_digests)
    tombstones = {row["digest"] for row in rows}
    return {memory_id for memory_id, memory_digests in digests.items() if not tombstones.isdisjoint(memory_digests)}


async def _salt(tx: Transaction, tenant_id: UUID) -> bytes:
    await tx.insert(QUERIES["insert_salt"], tenant_id, [{"salt": secrets.token_bytes(_SALT_BYTES)}])
    salt: bytes = await tx.value(QUERIES["read_salt"], tenant_id=tenant_id)
    return salt


async def _write(tx: Transaction, tenant_id: UUID, digests: set[bytes], *, at: datetime) -> None:
    # In one order everywhere, so that two purges never wait for each other.
    rows: list[dict[str, object]] = [{"digest": digest, "create_time": at} for digest in sorted(digests)]
    await tx.insert(QUERIES["insert_tombstones"], tenant_id, rows)


def _digests(salt: bytes, memory: Memory) -> set[bytes]:
    digests = {digest_of(salt, "memory_id", memory.memory_id.bytes)}
    if memory.draft.external_id is not None:
        digests.add(digest_of(salt, "external_id", memory.draft.external_id.encode()))
    draft = memory.draft
    if _is_identifying(draft.type, draft.content, draft.data):
        digests.add(digest_of(salt, _CONTENT_WITH_DATA, draft.content_hash))
    if draft.content:
        digests.add(digest_of(salt, _CONTENT, hash_without_data(draft.type, draft.content)))
    return digests


def _is_identifying(type_name: str, content: str, data: str | None) -> bool:
    """Return whether content identifies a memory; data of the vault is too similar."""
    return bool(content) or (data is not None and type_name != memory_type.VAULT)


def digest_of(salt: bytes, kind: str, value: bytes) -> bytes:
    """Return the digest of an id of a memory ("memory_id"), block or person, of an external id, or of a content."""
    return hmac.digest(salt, kind.encode() + b":" + value, hashlib.sha256)
