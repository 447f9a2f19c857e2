"""Spaces and grants in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from uuid import UUID

from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.database.tx_options import READ_ONLY
from skein_kit.errors import PermissionMissing, SpaceNotFound
from skein_kit.identity.spaces import MAX_SPACES
from skein_kit.ids import new_id, now
from skein_tenancy.errors import MemoryNotFound, SpaceExists, SpaceGrantNotFound, SpaceNotEmpty, SpacesFull
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import check_revision, require_row
from skein_tenancy.spaces.model import (
    MAX_FORMER_GRANTS,
    MAX_SPACES_OF_TENANT,
    PERMISSION,
    AccessExplanation,
    Space,
    SpaceGrant,
    VisibleSpace,
    explain,
    visible_spaces,
)

# A tenant's first space opens so long after its first grant, and a space may be deleted so long after its last grant
# was revoked. By then all identities in use know of the change: the gateway gets a new one every few seconds.
SETTLE_DELAY = timedelta(seconds=10)


class SpaceStore:
    """Spaces of a tenant, and who sees them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_space(
        self, tx: Transaction, tenant_id: UUID, *, display_name: str, description: str, created_by: str
    ) -> Space:
        """Raises SpaceExists and SpacesFull."""
        if await tx.value(QUERIES["count_spaces"], tenant_id=tenant_id) >= MAX_SPACES_OF_TENANT:
            raise SpacesFull(limit=MAX_SPACES_OF_TENANT)
        at = now()
        row = await tx.row(
            QUERIES["create_space"],
            tenant_id=tenant_id,
            space_id=new_id(at),
            display_name=display_name,
            description=description,
            create_time=at,
            created_by=created_by,
        )
        return Space(**require_row(row, SpaceExists))

    async def get_space(self, tenant_id: UUID, space_id: UUID) -> Space:
        """Raises SpaceNotFound."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            row = await tx.row(QUERIES["get_space"], tenant_id=tenant_id, space_id=space_id)
        return Space(**require_row(row, SpaceNotFound))

    async def list_spaces(
        self, tenant_id: UUID, space_ids: Sequence[UUID] | None, *, after: UUID, size: int
    ) -> list[Space]:
        """Read spaces, oldest first, from after one: those of some ids, or all."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(
                QUERIES["list_spaces"],
                tenant_id=tenant_id,
                space_ids=None if space_ids is None else list(space_ids),
                after=after,
                size=size,
            )
        return [Space(**row) for row in rows]

    async def update_space(
        self,
        tx: Transaction,
        tenant_id: UUID,
        space_id: UUID,
        values: Mapping[str, object],
        *,
        revision: int,
        updated_by: str,
    ) -> Space:
        """Raises SpaceNotFound, SpaceExists and RevisionStale."""
        current = await self._lock(tx, tenant_id, space_id)
        check_revision(revision, current.revision)
        columns = {"display_name": current.display_name, "description": current.description, **values}
        with translate_constraint_errors({"spaces_name_key": SpaceExists()}):
            row = await tx.row(
                QUERIES["update_space"],
                tenant_id=tenant_id,
                space_id=space_id,
                update_time=now(),
                updated_by=updated_by,
                **columns,
            )
        return Space(**require_row(row))

    async def lock_own_grants(
        self, tx: Transaction, tenant_id: UUID, space_id: UUID, principals: Sequence[str]
    ) -> list[SpaceGrant]:
        """Lock a space, and read the valid grants of it that some principals have, which none ends before this ends.

        Raises SpaceNotFound.
        """
        await self._lock(tx, tenant_id, space_id)
        grants = await self._valid_grants(tx, tenant_id, principals)
        return [grant for grant in grants if grant.space_id == space_id]

    async def put_grant(
        self, tx: Transaction, tenant_id: UUID, grant: SpaceGrant, *, is_bound: bool, may_replace: bool
    ) -> None:
        """Store a grant in place of the principal's former one, which ends with what was passed on by it.

        The transaction has locked the space. `is_bound` takes the default space from the principal. Raises SpacesFull,
        and PermissionMissing where a valid grant stands and this one may not replace it.
        """
        counted = {"tenant_id": tenant_id, "principal": grant.principal, "space_id": grant.space_id}
        if await tx.value(QUERIES["count_grants"], **counted, at=grant.create_time) >= MAX_SPACES:
            raise SpacesFull(limit=MAX_SPACES)
        if not may_replace and await tx.value(QUERIES["has_valid_grant"], **counted, at=grant.create_time):
            raise PermissionMissing(permission=PERMISSION)
        await tx.execute(QUERIES["revoke_grants"], **counted, at=grant.create_time)
        columns = asdict(grant)
        del columns["revoke_time"]
        await tx.execute(QUERIES["insert_grant"], tenant_id=tenant_id, **columns)
        await tx.execute(
            QUERIES["open_space"],
            tenant_id=tenant_id,
            space_id=grant.space_id,
            at=grant.create_time,
            first_open_time=grant.create_time + SETTLE_DELAY,
        )
        if is_bound:
            await tx.execute(
                QUERIES["bind_principal"],
                tenant_id=tenant_id,
                principal=grant.principal,
                create_time=grant.create_time,
                created_by=grant.created_by,
            )

    async def revoke_grant(
        self, tx: Transaction, tenant_id: UUID, space_id: UUID, principal: str, *, unbind: bool
    ) -> None:
        """End a grant with what was passed on by it, and perhaps the principal's binding.

        Raises SpaceNotFound and SpaceGrantNotFound.
        """
        await self._lock(tx, tenant_id, space_id)
        at = now()
        rows = await tx.rows(
            QUERIES["revoke_grants"], tenant_id=tenant_id, space_id=space_id, principal=principal, at=at
        )
        if not rows:
            raise SpaceGrantNotFound
        if unbind:
            await tx.execute(QUERIES["unbind_principal"], tenant_id=tenant_id, principal=principal)
        await tx.execute(QUERIES["set_grant_end_time"], tenant_id=tenant_id, space_id=space_id, grant_end_time=at)

    async def delete_space(self, tx: Transaction, tenant_id: UUID, space_id: UUID) -> None:
        """Remove an empty space, in a transaction that sees all spaces. Raises SpaceNotFound and SpaceNotEmpty."""
        await self._lock(tx, tenant_id, space_id)
        deleted_count = await tx.execute(
            QUERIES["delete_space"], tenant_id=tenant_id, space_id=space_id, ended_before=now() - SETTLE_DELAY
        )
        if not deleted_count:
            raise SpaceNotEmpty

    async def list_grants(self, tenant_id: UUID, space_id: UUID, *, after: str, size: int) -> list[SpaceGrant]:
        """Read grants of a space in order of their principals, from after one."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(QUERIES["list_grants"], tenant_id=tenant_id, space_id=space_id, after=after, size=size)
        return [SpaceGrant(**row) for row in rows]

    async def visible_spaces(self, tenant_id: UUID, principals: Sequence[str], client: str) -> list[VisibleSpace]:
        """Return what the caller with these principals sees; the client is empty for none."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            return await self.read_visible(tx, tenant_id, principals, client)

    async def read_visible(
        self, tx: Transaction, tenant_id: UUID, principals: Sequence[str], client: str
    ) -> list[VisibleSpace]:
        """Return what `visible_spaces` returns, as the transaction sees it."""
        names = [*principals, *([client] if client else ())]
        grants = await self._valid_grants(tx, tenant_id, names)
        rows = await tx.rows(QUERIES["list_bound"], tenant_id=tenant_id, principals=names)
        return visible_spaces(grants, [row["principal"] for row in rows], principals, client)

    async def find_space_of_memory(self, tenant_id: UUID, memory_id: UUID, *, of_all_spaces: bool) -> UUID:
        """Return the space in which a memory lies, which the call reaches or not. Raises MemoryNotFound."""
        database = self._database.for_all_spaces() if of_all_spaces else self._database
        async with database.transaction(tenant_id, READ_ONLY) as tx:
            row = await tx.row(QUERIES["find_space_of_memory"], tenant_id=tenant_id, memory_id=memory_id)
        space_id: UUID = require_row(row, MemoryNotFound)["space_id"]
        return space_id

    async def explain(
        self, tenant_id: UUID, space_id: UUID, principals: Sequence[str], client: str
    ) -> AccessExplanation:
        """Explain why the caller with these principals sees a space, or does not; the client is empty for none."""
        names = [*principals, *([client] if client else ())]
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            grants = await self._valid_grants(tx, tenant_id, names)
            bound = await tx.rows(QUERIES["list_bound"], tenant_id=tenant_id, principals=names)
            rows = await tx.rows(
                QUERIES["list_grants_of_all_times"],
                tenant_id=tenant_id,
                space_id=space_id,
                principals=names,
                count=MAX_FORMER_GRANTS,
            )
        return explain(
            space_id,
            grants,
            [SpaceGrant(**row) for row in rows],
            [row["principal"] for row in bound],
            principals=principals,
            client=client,
            at=now(),
        )

    async def open_space_ids(self, tenant_id: UUID) -> list[UUID]:
        """Return the spaces of a tenant in which something may lie."""
        async with self._database.transaction(tenant_id, READ_ONLY) as tx:
            rows = await tx.rows(QUERIES["list_open_spaces"], tenant_id=tenant_id)
        return [row["space_id"] for row in rows]

    @staticmethod
    async def _valid_grants(tx: Transaction, tenant_id: UUID, principals: Sequence[str]) -> list[SpaceGrant]:
        rows = await tx.rows(QUERIES["list_valid_grants"], tenant_id=tenant_id, principals=list(principals), at=now())
        return [SpaceGrant(**row) for row in rows]

    @staticmethod
    async def _lock(tx: Transaction, tenant_id: UUID, space_id: UUID) -> Space:
        row = await tx.row(QUERIES["lock_space"], tenant_id=tenant_id, space_id=space_id)
        return Space(**require_row(row, SpaceNotFound))
