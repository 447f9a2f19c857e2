"""The deletion of tenants and organizations in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2
from skein.tenancy.v1 import tenancy_pb2 as pb
from skein_kit.database.tenant_purge import purge_tenant_rows
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import TenantNotDeleted
from skein_kit.ids import new_id, now
from skein_kit.rpc.pagination import fit_items
from skein_tenancy import convert as wire
from skein_tenancy.deletions import model as deletions
from skein_tenancy.deletions import tenant_tables
from skein_tenancy.errors import (
    DeletionStarted,
    OrganizationExists,
    OrganizationNotEmpty,
    OrganizationNotFound,
    TenantExists,
    TenantNotFound,
)
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, require_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey

# Tenants of an organization that one transaction closes.
_TENANTS_AT_ONCE = 100


class DeletionStore(StoreBase):
    """What closes tenants, opens them again, and removes what they had.

    The answers to requests are kept under no tenant: those of a tenant go with it.
    """

    async def delete_tenant(
        self, tenant_id: UUID, closing: deletions.DeletionRequest, once: IdempotencyKey
    ) -> pb.DeleteTenantResponse:
        async with self._database.operator() as tx:
            if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                return pb.DeleteTenantResponse.FromString(first)
            at = now()
            closed = await tx.row(
                QUERIES["close_tenant"], tenant_id=tenant_id, purge_time=at + closing.grace, update_time=at
            )
            if closed is None:
                raise TenantNotFound
            response = pb.DeleteTenantResponse(deletion=await _insert_deletion(tx, closed, closing, at))
            await self._answer(tx, NO_TENANT, once, response)
            return response

    async def undelete_tenant(self, tenant_id: UUID, once: IdempotencyKey) -> members_pb2.UndeleteTenantResponse:
        """Open a tenant again and, if that was deleted, its organization."""
        refusals = {"tenants_slug_key": TenantExists(), "organizations_slug_key": OrganizationExists()}
        with translate_constraint_errors(refusals):
            async with self._database.operator() as tx:
                if (first := await self._requests.claim(tx, NO_TENANT, once)) is not None:
                    return members_pb2.UndeleteTenantResponse.FromString(first)
                deletion = await tx.row(QUERIES["lock_deletion"], tenant_id=tenant_id)
                if deletion is None or deletion["state"] in (deletions.DONE, deletions.UNDONE):
                    raise TenantNotFound
                if deletion["state"] == deletions.PURGING:
                    raise DeletionStarted
                at = now()
                await tx.execute(
                    QUERIES["open_organization"], organization_id=deletion["organization_id"], update_time=at
                )
                await tx.execute(QUERIES["open_tenant"], tenant_id=tenant_id, update_time=at)
                changed = await _update_deletion(
                    tx,
                    deletion,
                    state=deletions.UNDONE,
                    stage="",
                    deleted_counts=deletion["deleted_counts"],
                    finish_time=at,
                )
                response = members_pb2.UndeleteTenantResponse(deletion=wire.deletion(changed))
                await self._answer(tx, NO_TENANT, once, response)
                return response

    async def get_deletion(self, tenant_id: UUID) -> members_pb2.Deletion:
        async with self._database.operator() as tx:
            row = await tx.row(QUERIES["get_deletion"], tenant_id=tenant_id)
        if row is None:
            raise TenantNotFound
        return wire.deletion(row)

    async def list_deletions(self, *, before: UUID | None, size: int) -> Sequence[asyncpg.Record]:
        """Read deletions, newest first."""
        async with self._database.operator() as tx:
            return await tx.rows(QUERIES["list_deletions"], before=before, size=size)

    async def list_due_deletions(
        self, at: datetime, *, after: tuple[datetime, UUID] | None, size: int
    ) -> Sequence[asyncpg.Record]:
        """Read deletions whose grace is over, the oldest first, from after the one that `after` tells of."""
        after_time, after_id = after or (None, None)
        async with self._database.operator() as tx:
            return await tx.rows(
                QUERIES["list_due_deletions"], at=at, after_time=after_time, after_id=after_id, size=size
            )

    async def record_deletion(self, tenant_id: UUID, progress: deletions.DeletionProgress) -> members_pb2.Deletion:
        """Add to a report; finishing removes the tenant's row and, with the last one, a deleted organization's."""
        async with self._database.operator() as tx:
            deletion = await tx.row(QUERIES["lock_deletion"], tenant_id=tenant_id)
            if deletion is None:
                raise TenantNotDeleted
            at = now()
            changed = await _update_deletion(tx, deletion, **progress.added_to(deletion, at))
            if progress.finished:
                # Of two last tenants that end at once, the second sees that the first is gone.
                await tx.value(QUERIES["hold_organization"], organization_id=deletion["organization_id"])
                await tx.execute(QUERIES["remove_tenant"], tenant_id=tenant_id)
                await tx.execute(QUERIES["remove_organization"], organization_id=deletion["organization_id"])
            return wire.deletion(changed)

    async def purge_tenant(self, tenant_id: UUID, limit: int) -> tuple[dict[str, int], bool]:
        """Remove some of what is left of a deleted tenant; return rows by table, and whether there may be more."""
        return await purge_tenant_rows(self._database, tenant_id, tenant_tables.TENANT_TABLES, limit)

    async def delete_organization(
        self, organization_id: UUID, closing: deletions.DeletionRequest | None, once: IdempotencyKey
    ) -> pb.DeleteOrganizationResponse:
        """Close an organization; with `closing` its tenants first, some in each transaction.

        A request that was interrupted goes on when it is repeated: only its end has an answer.
        """
        while True:
            async with self._database.operator() as tx:
                first = await self._requests.claim(tx, NO_TENANT, once)
                if first:
                    return pb.DeleteOrganizationResponse.FromString(first)
                if await tx.row(QUERIES["lock_organization"], organization_id=organization_id) is None:
                    if first is not None:
                        return pb.DeleteOrganizationResponse()
                    raise OrganizationNotFound
                if closing is not None and await _delete_batch(tx, organization_id, closing) == _TENANTS_AT_ONCE:
                    continue
                response = await self._close_organization(tx, organization_id, report=closing is not None)
                await self._answer(tx, NO_TENANT, once, response)
                return response

    async def _close_organization(
        self, tx: Transaction, organization_id: UUID, *, report: bool
    ) -> pb.DeleteOrganizationResponse:
        if await tx.value(QUERIES["organization_has_tenants"], organization_id=organization_id):
            raise OrganizationNotEmpty
        await tx.execute(QUERIES["delete_organization"], organization_id=organization_id, update_time=now())
        await tx.execute(QUERIES["remove_organization"], organization_id=organization_id)
        if not report:
            return pb.DeleteOrganizationResponse()
        rows = await tx.rows(QUERIES["list_organization_deletions"], organization_id=organization_id)
        return pb.DeleteOrganizationResponse(deletions=fit_items(wire.deletion(row) for row in rows))


async def _delete_batch(tx: Transaction, organization_id: UUID, closing: deletions.DeletionRequest) -> int:
    """Close some tenants of an organization; return how many."""
    at = now()
    closed = await tx.rows(
        QUERIES["close_some_tenants"],
        organization_id=organization_id,
        count=_TENANTS_AT_ONCE,
        purge_time=at + closing.grace,
        update_time=at,
    )
    for row in closed:
        await _insert_deletion(tx, row, closing, at)
    return len(closed)


async def _insert_deletion(
    tx: Transaction, closed: asyncpg.Record, closing: deletions.DeletionRequest, at: datetime
) -> members_pb2.Deletion:
    row = await tx.row(
        QUERIES["create_deletion"],
        tenant_id=closed["tenant_id"],
        deletion_id=new_id(at),
        organization_id=closed["organization_id"],
        create_time=at,
        purge_time=at + closing.grace,
        created_by=closing.created_by,
    )
    return wire.deletion(require_row(row))


async def _update_deletion(tx: Transaction, deletion: asyncpg.Record, **values: object) -> asyncpg.Record:
    row = await tx.row(
        QUERIES["update_deletion"], tenant_id=deletion["tenant_id"], deletion_id=deletion["deletion_id"], **values
    )
    return require_row(row)
