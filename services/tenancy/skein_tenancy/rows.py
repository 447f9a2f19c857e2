"""Resources whose ids callers choose (agents, subjects, tools) in the database: what their stores have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

import asyncpg

from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import RevisionStale, RpcError
from skein_kit.idempotency.store import LIFETIME
from skein_kit.ids import new_id, now
from skein_kit.quotas.store import QuotaCounter
from skein_kit.rpc.row_times import ImportTimes
from skein_tenancy.queries import QUERIES

Row = TypeVar("Row")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowDraft:
    """The validated content of a row to be created."""

    # Empty: the store generates one.
    row_id: str
    # By column; JSON as text.
    values: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """New values for some columns of one row."""

    row_id: str
    # 0: any revision.
    revision: int
    # By column; JSON as text.
    values: Mapping[str, object]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource(Generic[Row]):
    """A kind of row. Its noun names the column of its id, its quota and its queries, such as `create_agent`."""

    noun: str
    of_record: Callable[[asyncpg.Record], Row]
    not_found: type[RpcError]
    exists: type[RpcError]
    deleted: type[RpcError]
    # What the violation of a constraint by an update means, by the constraint.
    violations: Mapping[str, RpcError] = field(default_factory=dict)

    def query(self, verb: str) -> Query:
        return QUERIES[f"{verb}_{self.noun}"]


class RowStore(Generic[Row]):
    """The rows of a resource. Methods that take `tx` work in the caller's transaction, which sees the tenant.

    All raise the resource's `not_found`, as far as they name a row.
    """

    def __init__(self, resource: Resource[Row], database: Database, quota_counter: QuotaCounter) -> None:
        self._resource = resource
        self._database = database
        self._quota_counter = quota_counter

    async def create(
        self, tx: Transaction, tenant_id: UUID, draft: RowDraft, times: ImportTimes, *, created_by: str
    ) -> Row:
        """Raises the resource's `exists` and `deleted`, and QuotaExceeded."""
        values = {
            **draft.values,
            **self._key(tenant_id, draft.row_id or str(new_id(now()))),
            "create_time": times.create_time,
            "update_time": times.update_time,
            "created_by": created_by,
        }
        row = await _run(tx, self._resource.query("create"), {**values, **self._derived(None, values, by=created_by)})
        if row is None:
            await self._raise_deleted(tx, {**values, **self._key(tenant_id, draft.row_id or None)})
            raise self._resource.exists
        await self._charge(tx, tenant_id, 1)
        return self._resource.of_record(row)

    async def get(self, tenant_id: UUID, row_id: str) -> Row:
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(self._resource.query("get"), **self._key(tenant_id, row_id))
        return self._resource.of_record(require_row(row, self._resource.not_found))

    async def update(self, tx: Transaction, tenant_id: UUID, change: RowChange, *, updated_by: str) -> Row:
        """Raises RevisionStale, and what the resource's constraints mean."""
        current = await self._lock(tx, tenant_id, change.row_id)
        if current["delete_time"] is not None:
            raise self._resource.not_found
        check_revision(change.revision, current["revision"])
        stamps = {"tenant_id": tenant_id, "updated_by": updated_by, "update_time": now()}
        values = {**current, **change.values, **stamps, **self._derived(current, change.values, by=updated_by)}
        await self._check_update(tx, current, values)
        with translate_constraint_errors(self._resource.violations):
            return self._resource.of_record(await update_row(tx, self._resource.query("update"), values))

    async def delete(self, tx: Transaction, tenant_id: UUID, row_id: str, *, deleted_by: str) -> None:
        """Delete a row; what belongs to it stays for an undelete."""
        deleted_count = await tx.execute(
            self._resource.query("delete"), **self._key(tenant_id, row_id), delete_time=now(), deleted_by=deleted_by
        )
        if not deleted_count:
            raise self._resource.not_found
        await self._charge(tx, tenant_id, -1)

    async def undelete(self, tx: Transaction, tenant_id: UUID, row_id: str, *, updated_by: str) -> Row:
        """Bring a deleted row back; return one that is not deleted as it is. Raises QuotaExceeded."""
        row = await self._lock(tx, tenant_id, row_id)
        if row["delete_time"] is not None:
            stamps = {"tenant_id": tenant_id, "updated_by": updated_by, "update_time": now()}
            values = {**row, **stamps, **self._derived(row, {}, by=updated_by)}
            row = await update_row(tx, self._resource.query("undelete"), values)
            await self._charge(tx, tenant_id, 1)
        return self._resource.of_record(row)

    async def purge(self, tx: Transaction, tenant_id: UUID, row_id: str, *, purged_by: str) -> None:
        """Remove a row for good, deleted or not."""
        row = await self._lock(tx, tenant_id, row_id)
        await self._purge(tx, tenant_id, row_id, by=purged_by)
        if row["delete_time"] is None:
            await self._charge(tx, tenant_id, -1)

    async def clear_responses(self, tx: Transaction, tenant_id: UUID, *, methods: Sequence[str], prefix: bytes) -> None:
        """Empty the saved responses of these methods that contain the prefix of a purged row."""
        await tx.execute(
            QUERIES[f"clear_{self._resource.noun}_responses"],
            tenant_id=tenant_id,
            since_time=now() - LIFETIME,
            methods=list(methods),
            prefix=prefix,
        )

    async def _purge(self, tx: Transaction, tenant_id: UUID, row_id: str, *, by: str) -> None:
        """Remove a locked row; a resource with more to remove than the row overrides it."""
        await tx.execute(self._resource.query("purge"), **self._key(tenant_id, row_id))

    def _derived(
        self,
        current: asyncpg.Record | None,
        values: Mapping[str, object],
        *,
        by: str,
    ) -> Mapping[str, object]:
        """Return columns that follow from others; `current` is the stored row, None for a new one."""
        return {}

    async def _check_update(self, tx: Transaction, current: asyncpg.Record, values: Mapping[str, object]) -> None:
        """Refuse new values of a locked row that no constraint refuses."""

    async def _raise_deleted(self, tx: Transaction, values: Mapping[str, object]) -> None:
        """Raise the resource's `deleted` if only deleted rows have the id, or another value that is unique."""
        query = QUERIES[f"find_conflicting_{self._resource.noun}"]
        if await tx.value(query, **{name: values[name] for name in query.parameters}) is not None:
            raise self._resource.deleted

    async def _lock(self, tx: Transaction, tenant_id: UUID, row_id: str) -> asyncpg.Record:
        row = await tx.row(self._resource.query("lock"), **self._key(tenant_id, row_id))
        return require_row(row, self._resource.not_found)

    async def _charge(self, tx: Transaction, tenant_id: UUID, count: int) -> None:
        await self._quota_counter.charge(tx, tenant_id, {f"{self._resource.noun}s": count})

    def _key(self, tenant_id: UUID, row_id: str | None) -> dict[str, object]:
        return {"tenant_id": tenant_id, f"{self._resource.noun}_id": row_id}


def check_revision(expected: int, current: int) -> None:
    """Raise RevisionStale unless a locked row has the expected revision; 0 expects any."""
    if expected not in (0, current):
        raise RevisionStale(requested=expected, current=current)


def require_row(row: asyncpg.Record | None, not_found: type[Exception] = LookupError) -> asyncpg.Record:
    """Return the row of a statement, or raise `not_found`.

    The default is for a row that the transaction inserted or locked, so that it cannot be missing.
    """
    if row is None:
        raise not_found
    return row


async def update_row(tx: Transaction, query: Query, values: Mapping[str, object]) -> asyncpg.Record:
    """Update a locked row; the query takes its parameters from the values of all columns."""
    return require_row(await _run(tx, query, values))


async def _run(tx: Transaction, query: Query, values: Mapping[str, object]) -> asyncpg.Record | None:
    return await tx.row(query, **{name: values[name] for name in query.parameters})
