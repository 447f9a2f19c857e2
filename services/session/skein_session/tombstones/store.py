"""What stays of a purged session or message: a salted digest of its name, so that nothing takes its place."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from skein_kit.database.named_queries import Queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from skein_kit.database.transactions import Transaction

_QUERIES = Queries.of("skein_session")
_SALT_BYTES = 32


def of_session(session_id: str) -> str:
    """Return what a session is called among tombstones."""
    return f"session {session_id}"


def of_message(external_id: str) -> str:
    """Return what a message with an external id is called among tombstones."""
    return f"message {external_id}"


def of_message_id(message_id: UUID) -> str:
    """Return what a message is called among tombstones, whether or not another system has an id for it."""
    return f"message-id {message_id}"


def of_subject(subject_id: str) -> str:
    """Return what a person is called among tombstones, who keep nothing from being stored about them later."""
    return f"subject {subject_id}"


def digest_of(salt: bytes, name: str) -> bytes:
    """Return what stays of a name."""
    return hashlib.sha256(salt + name.encode()).digest()


async def put_subject(tx: Transaction, tenant_id: UUID, subject_id: str, at: datetime) -> None:
    """Remember that a person is purged: in a database brought back to before that it is done again."""
    digest = digest_of(await _salt(tx, tenant_id), of_subject(subject_id))
    await tx.insert(_QUERIES["renew_tombstones"], tenant_id, [{"digest": digest, "create_time": at}])


async def put(tx: Transaction, tenant_id: UUID, names: Iterable[str], at: datetime) -> None:
    """Remember that these are purged."""
    if not (wanted := sorted(set(names))):
        return
    salt = await _salt(tx, tenant_id)
    # In order, so that two purges never wait for each other.
    digests = sorted(digest_of(salt, name) for name in wanted)
    rows = [{"digest": digest, "create_time": at} for digest in digests]
    await tx.insert(_QUERIES["insert_tombstones"], tenant_id, rows)


async def purged(tx: Transaction, tenant_id: UUID, names: Iterable[str]) -> list[str]:
    """Return those of the names that belong to what was purged."""
    rows = await tx.rows(_QUERIES["purged_names"], tenant_id=tenant_id, names=list(names))
    return [row["name"] for row in rows]


async def _salt(tx: Transaction, tenant_id: UUID) -> bytes:
    await tx.execute(_QUERIES["take_salt"], tenant_id=tenant_id, salt=secrets.token_bytes(_SALT_BYTES))
    salt: bytes = await tx.value(_QUERIES["read_salt"], tenant_id=tenant_id)
    return salt
