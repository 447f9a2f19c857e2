"""Times in the past as of which calls answer: which of them a tenant's history covers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

from google.protobuf.message import Message

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.errors import FieldInvalid, NotKnownThen
from skein_kit.policies.store import shared_policy_cache
from skein_kit.rpc.well_known_types import read_time

_QUERY = Queries.load("skein_kit")["read_tenant_create_time"]


def read_as_of_time(message: Message, *, at: datetime, within: str = "") -> datetime | None:
    """Read the optional field as_of_time at the time `at`; None when unset.

    Raises FieldInvalid for a time after `at`. The violation names the field after `within`, such as "recall.".
    """
    as_of_time = read_time(message, "as_of_time", within=within)
    if as_of_time is not None and as_of_time > at:
        raise FieldInvalid(violations=[(f"{within}as_of_time", "lies in the future")])
    return as_of_time


@asynccontextmanager
async def read_as_of(
    database: Database,
    tenant_id: UUID,
    as_of_time: datetime | None,
    *,
    at: datetime,
    repeatable_read: bool = False,
) -> AsyncIterator[Transaction]:
    """Open a transaction that reads as of a time, at the time `at`; None: it reads the present.

    Raises HistoryNotKept and NotKnownThen.
    """
    options = TxOptions(read_only=True, as_of_time=as_of_time, repeatable_read=repeatable_read)
    async with database.transaction(tenant_id, options) as tx:
        if as_of_time is not None:
            await check_history(tx, tenant_id, as_of_time, at=at)
        yield tx


async def check_history(tx: Transaction, tenant_id: UUID, as_of_time: datetime, *, at: datetime) -> None:
    """Check that the transaction's tenant has a history that covers a time.

    It begins when the tenant was created, or when the retention of today's policy does. Raises
    NotKnownThen for an earlier time.
    """
    policy = await shared_policy_cache(tx.database).get(tx, tenant_id)
    create_time: datetime | None = await tx.value(_QUERY, tenant_id=tenant_id)
    earliest = at - timedelta(days=policy.retention_days)
    if create_time is not None:
        earliest = max(earliest, create_time)
    if as_of_time < earliest:
        raise NotKnownThen(earliest_time=earliest.astimezone(UTC).isoformat().replace("+00:00", "Z"))
