"""Context ledgers in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from asyncpg import Record

from skein_kit.database.named_queries import Queries
from skein_kit.database.transactions import Database
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.identity.identity_token import Caller
from skein_kit.quotas.store import QuotaCounter
from skein_session.errors import ContextLedgerChanged

_QUERIES = Queries.load("skein_session")


class LedgerStore:
    """Context ledgers, each of the caller that made it."""

    def __init__(self, database: Database, quotas: QuotaCounter) -> None:
        self._database = database
        self._quotas = quotas

    async def get_ledger(self, caller: Caller, ledger_id: str, at: datetime) -> Record | None:
        """Read a caller's ledger; None if there is none, or it has expired."""
        async with self._database.transaction(caller.require_tenant()) as tx:
            return await tx.row(_QUERIES["get_ledger"], **_key(caller, ledger_id), at=at)

    async def list_ledgers(
        self, caller: Caller, at: datetime, *, after: tuple[str, str, str], limit: int, **conditions: str | None
    ) -> list[Record]:
        """Read ledgers that have not expired, and whose texts are of spaces that the call reaches.

        They come by maker, agent and name, after another. A caller that is bound to an agent sees that agent's.
        """
        after_principal, after_agent, after_ledger = after
        async with self._database.transaction(caller.require_tenant(), READ_ONLY) as tx:
            return await tx.rows(
                _QUERIES["list_ledgers"],
                tenant_id=caller.require_tenant(),
                agent_id=caller.agent_id or None,
                at=at,
                after_principal=after_principal,
                after_agent=after_agent,
                after_ledger=after_ledger,
                limit=limit,
                **conditions,
            )

    async def put_ledger(
        self, caller: Caller, columns: Mapping[str, object], *, last_revision: int, at: datetime
    ) -> None:
        """Store a ledger in place of a revision of it, 0 for none. Raises ContextLedgerChanged and QuotaExceeded."""
        tenant_id, key = caller.require_tenant(), _key(caller, str(columns["ledger_id"]))
        values = {**key, **columns}
        async with self._database.transaction(tenant_id) as tx:
            if last_revision:
                row = await tx.row(_QUERIES["replace_ledger"], **values, last_revision=last_revision, at=at)
            else:
                row = await tx.row(_QUERIES["insert_ledger"], **values, create_time=at)
                await self._quotas.charge(tx, tenant_id, {"session_items": int(row is not None)})
                if row is None:
                    row = await tx.row(_QUERIES["renew_ledger"], **values, create_time=at)
            if row is None:
                current = await tx.value(_QUERIES["get_ledger_revision"], **key)
                raise ContextLedgerChanged(requested=last_revision, current=current or 0)

    async def delete_expired(self, tenant_id: UUID, at: datetime, *, count: int) -> int:
        """Delete up to `count` expired ledgers; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            deleted_count = await tx.execute(
                _QUERIES["delete_expired_ledgers"], tenant_id=tenant_id, at=at, count=count
            )
            await self._quotas.charge(tx, tenant_id, {"session_items": -deleted_count})
        return deleted_count


def _key(caller: Caller, ledger_id: str) -> dict[str, object]:
    return {
        "tenant_id": caller.require_tenant(),
        "principal": caller.principal,
        "agent_id": caller.agent_id,
        "ledger_id": ledger_id,
    }
