"""Policies: the defaults, and in the database one row for each tenant that changed its policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.ids import now
from skein_kit.policies.store import DEFAULT
from skein_tenancy.errors import EmbeddingModelNotOffered
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import check_revision, require_row, update_row

# Of a tenant that changed nothing, by column.
DEFAULTS: Mapping[str, object] = MappingProxyType(asdict(DEFAULT))


class PolicyStore:
    """The policy of a tenant, as the columns that the tenant set."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get_policy(self, tenant_id: UUID) -> Mapping[str, object]:
        """Return nothing for a tenant that never changed its policy."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_policy"], tenant_id=tenant_id)
        return {} if row is None else _set_columns(row)

    async def update_policy(self, tx: Transaction, tenant_id: UUID, change: PolicyChange) -> Mapping[str, object]:
        """Change a policy in the caller's transaction, which sees the tenant.

        Raises RevisionStale, and EmbeddingModelNotOffered for a new model that tenants cannot choose.
        """
        at = now()
        await tx.execute(QUERIES["insert_policy"], tenant_id=tenant_id, update_time=at)
        current = require_row(await tx.row(QUERIES["lock_policy"], tenant_id=tenant_id))
        check_revision(change.revision, current["revision"])
        model = change.values.get("embedding_model")
        if model is not None and model != current["embedding_model"]:
            await _require_offered(tx, str(model))
        values = {"tenant_id": tenant_id, **current, **change.values, "update_time": at}
        return _set_columns(await update_row(tx, QUERIES["update_policy"], values))


async def _require_offered(tx: Transaction, model: str) -> None:
    offered = [row["model"] for row in await tx.rows(QUERIES["list_offered_models"])]
    if model not in offered:
        raise EmbeddingModelNotOffered(model=model, offered_models=", ".join(offered))


def _set_columns(row: asyncpg.Record) -> dict[str, object]:
    return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyChange:
    """New values for some columns of a policy."""

    # 0: any revision.
    revision: int
    # By column; None: the default.
    values: Mapping[str, object]
