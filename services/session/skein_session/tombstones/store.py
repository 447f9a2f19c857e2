"""Tombstones of purged names in the database: salted digests that keep the names from being used again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from skein_kit.calls.call import current_space_ids
from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Transaction
from skein_kit.identity.spaces import DEFAULT_SPACE

_QUERIES = Queries.load("skein_session")
_SALT_BYTES = 32


def of_session(session_id: str, space_id: UUID | None = None) -> str:
    """Return the name of a session's tombstone in a space; None: the one where the call writes."""
    return f"session{_of_space(space_id)} {session_id}"


def of_message(external_id: str, space_id: UUID | None = None) -> str:
    """Return the name of the tombstone of a message's external id in a space; None: the one where the call writes."""
    return f"message{_of_space(space_id)} {external_id}"


def of_message_id(message_id: UUID) -> str:
    """Return the name of a message's tombstone."""
    return f"message-id {message_id}"


def of_subject(subject_id: str) -> str:
    """Return the name of a subject's tombstone, which keeps no later rows about the subject out."""
    return f"subject {subject_id}"


def _of_space(space_id: UUID | None) -> str:
    """Return the mark of names in a space: a purged name of another space is free. The default one has none."""
    space_id = space_id or next(iter(current_space_ids() or ()), DEFAULT_SPACE)
    return "" if space_id == DEFAULT_SPACE else f"@{space_id}"


def digest_of(salt: bytes, name: str) -> bytes:
    """Return the salted digest of a name."""
    return hashlib.sha256(salt + name.encode()).digest()


async def renew_subject(tx: Transaction, tenant_id: UUID, subject_id: str, at: datetime) -> bytes:
    """Record the purge of a subject, so that a restore of an older backup repeats it; return its digest."""
    digest = digest_of(await _salt(tx, tenant_id), of_subject(subject_id))
    await tx.insert(_QUERIES["renew_tombstones"], tenant_id, [{"digest": digest, "create_time": at}])
    return digest


async def list_of_purge(tx: Transaction, tenant_id: UUID, at: datetime) -> list[bytes]:
    """Return the digests that a purge with this time has written."""
    rows = await tx.rows(_QUERIES["list_tombstones"], tenant_id=tenant_id, create_time=at)
    return [row["digest"] for row in rows]


async def insert(tx: Transaction, tenant_id: UUID, names: Iterable[str], at: datetime) -> None:
    """Record the purge of names."""
    if not (distinct_names := set(names)):
        return
    salt = await _salt(tx, tenant_id)
    # In order, so that concurrent purges do not deadlock.
    digests = sorted(digest_of(salt, name) for name in distinct_names)
    rows = [{"digest": digest, "create_time": at} for digest in digests]
    await tx.insert(_QUERIES["insert_tombstones"], tenant_id, rows)


async def find_purged(tx: Transaction, tenant_id: UUID, names: Iterable[str]) -> list[str]:
    """Return the names that are purged."""
    rows = await tx.rows(_QUERIES["find_purged_names"], tenant_id=tenant_id, names=list(names))
    return [row["name"] for row in rows]


async def _salt(tx: Transaction, tenant_id: UUID) -> bytes:
    await tx.execute(_QUERIES["ensure_salt"], tenant_id=tenant_id, salt=secrets.token_bytes(_SALT_BYTES))
    salt: bytes = await tx.value(_QUERIES["read_salt"], tenant_id=tenant_id)
    return salt
