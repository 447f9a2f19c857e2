"""Members in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.database.tx_options import TxOptions
from skein_kit.ids import now
from skein_kit.quotas.store import QuotaCounter
from skein_tenancy.errors import MemberExists, MemberNotFound
from skein_tenancy.members.model import (
    ADMIN,
    OWNER,
    Authority,
    Member,
    Membership,
    NewMember,
    OwnershipTransfer,
    RoleChange,
    invitable_roles,
    require_remaining_owner,
)
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import check_revision, require_row


class MemberStore:
    """Members of a tenant.

    Methods that end or lower a membership lock the tenant's owners first, so that the last owner is noticed.
    """

    def __init__(self, database: Database, quota_counter: QuotaCounter) -> None:
        self._database = database
        self._quota_counter = quota_counter

    async def get_membership(self, tenant_id: UUID, account_id: UUID | None) -> Membership | None:
        """Return None when the tenant does not exist; without an account, no role."""
        async with self._database.transaction(tenant_id, TxOptions(plan_once=True, read_only=True)) as tx:
            if account_id is None:
                # On Citus each machine has the answer.
                row = await tx.row(QUERIES["get_tenant_state"], tenant_id=tenant_id)
                return None if row is None else Membership(role=None, **row)
            row = await tx.row(QUERIES["get_membership"], tenant_id=tenant_id, account_id=account_id)
        return None if row is None else Membership(**row)

    async def add_member(self, tx: Transaction, tenant_id: UUID, new_member: NewMember) -> Member:
        """Raises MemberExists and QuotaExceeded."""
        row = await tx.row(
            QUERIES["create_member"],
            tenant_id=tenant_id,
            account_id=new_member.account_id,
            role=new_member.role,
            email=new_member.email,
            display_name=new_member.display_name,
            create_time=now(),
            created_by=new_member.created_by,
        )
        if row is None:
            raise MemberExists
        await self._quota_counter.charge(tx, tenant_id, {"members": 1})
        return Member(**row)

    async def get_member(self, tenant_id: UUID, account_id: UUID) -> Member:
        """Raises MemberNotFound."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_member"], tenant_id=tenant_id, account_id=account_id)
        return Member(**require_row(row, MemberNotFound))

    async def list_members(self, tenant_id: UUID, *, after: tuple[datetime, UUID] | None, size: int) -> list[Member]:
        """Read members in order of joining, from after the one with this create time and account."""
        after_time, after_id = after or (None, None)
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_members"], tenant_id=tenant_id, after_time=after_time, after_id=after_id, size=size
            )
        return [Member(**row) for row in rows]

    async def update_member(self, tx: Transaction, tenant_id: UUID, change: RoleChange, authority: Authority) -> Member:
        """Raises MemberNotFound, RoleTooLow, PermissionEscalation, RevisionStale and LastOwner."""
        locked_members = await self._lock_members(tx, tenant_id, change.account_id)
        current = _require_member(locked_members, change.account_id)
        authority.require_rank(current["role"])
        authority.require_permissions_for(change.role, former_role=current["role"])
        check_revision(change.revision, current["revision"])
        if current["role"] == OWNER != change.role:
            require_remaining_owner(tenant_id, _owners(locked_members), leaving_account_id=change.account_id)
        return await self._set_role(tx, tenant_id, change.account_id, change.role)

    async def remove_member(
        self, tx: Transaction, tenant_id: UUID, account_id: UUID, authority: Authority | None
    ) -> None:
        """Remove a member; `authority` is None for an account that leaves. Raises as `update_member` does."""
        locked_members = await self._lock_members(tx, tenant_id, account_id)
        role = _require_member(locked_members, account_id)["role"]
        if authority is not None:
            authority.require_rank(role)
        if role == OWNER:
            require_remaining_owner(tenant_id, _owners(locked_members), leaving_account_id=account_id)
        await self._delete_member(tx, tenant_id, account_id)

    async def transfer_ownership(self, tx: Transaction, tenant_id: UUID, transfer: OwnershipTransfer) -> Member:
        """Make one member an owner and the former owner, if named, an admin. Raises MemberNotFound."""
        locked_members = await self._lock_members(tx, tenant_id, transfer.new_owner_id)
        _require_member(locked_members, transfer.new_owner_id)
        if transfer.former_owner_id is not None:
            if transfer.former_owner_id not in _owners(locked_members):
                raise MemberNotFound
            await self._set_role(tx, tenant_id, transfer.former_owner_id, ADMIN)
        return await self._set_role(tx, tenant_id, transfer.new_owner_id, OWNER)

    async def remove_account(self, account_id: UUID) -> int:
        """End every membership of an account; return how many. Raises LastOwner and ends none for a last owner.

        Each tenant has a transaction of its own. When an owner becomes the last one meanwhile, LastOwner is raised
        and memberships that ended before stay ended.
        """
        async with self._database.account_transaction(account_id) as tx:
            memberships = await tx.rows(QUERIES["list_memberships"], account_id=account_id)
        for membership in memberships:
            if membership["role"] == OWNER:
                async with self._database.transaction(membership["tenant_id"]) as tx:
                    await self._check_last_owner(tx, membership["tenant_id"], account_id)
        removed_count = 0
        for membership in memberships:
            async with self._database.transaction(membership["tenant_id"]) as tx:
                if await self._check_last_owner(tx, membership["tenant_id"], account_id):
                    removed_count += await self._delete_member(tx, membership["tenant_id"], account_id)
        return removed_count

    async def _check_last_owner(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> bool:
        """Raise LastOwner for the last owner of an open tenant; return whether the account is still a member."""
        membership = await tx.row(QUERIES["get_membership"], tenant_id=tenant_id, account_id=account_id)
        locked_members = await self._lock_members(tx, tenant_id, account_id)
        if account_id not in locked_members:
            return False
        if membership is not None and membership["is_active"] and account_id in _owners(locked_members):
            require_remaining_owner(tenant_id, _owners(locked_members), leaving_account_id=account_id)
        return True

    async def _lock_members(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> Mapping[UUID, asyncpg.Record]:
        """Lock the account's membership, if there is one, and all owners; return the rows by account."""
        rows = await tx.rows(QUERIES["lock_members"], tenant_id=tenant_id, account_ids=[account_id])
        return {row["account_id"]: row for row in rows}

    async def _set_role(self, tx: Transaction, tenant_id: UUID, account_id: UUID, role: str) -> Member:
        row = await tx.row(
            QUERIES["update_member"], tenant_id=tenant_id, account_id=account_id, role=role, update_time=now()
        )
        await self._revoke_invitations(tx, tenant_id, account_id, invitable_roles(role))
        return Member(**require_row(row))

    async def _delete_member(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> int:
        deleted_count = await tx.execute(QUERIES["delete_member"], tenant_id=tenant_id, account_id=account_id)
        await self._revoke_invitations(tx, tenant_id, account_id, invitable=[])
        await self._quota_counter.charge(tx, tenant_id, {"members": -deleted_count})
        return deleted_count

    @staticmethod
    async def _revoke_invitations(tx: Transaction, tenant_id: UUID, account_id: UUID, invitable: Sequence[str]) -> None:
        """Revoke the open invitations that a member made to roles that it may no longer invite to."""
        await tx.execute(
            QUERIES["revoke_invitations_of_member"],
            tenant_id=tenant_id,
            created_by=f"account:{account_id}",
            revoke_time=now(),
            roles=list(invitable),
        )


def _require_member(locked_members: Mapping[UUID, asyncpg.Record], account_id: UUID) -> asyncpg.Record:
    if account_id not in locked_members:
        raise MemberNotFound
    return locked_members[account_id]


def _owners(locked_members: Mapping[UUID, asyncpg.Record]) -> set[UUID]:
    return {account_id for account_id, row in locked_members.items() if row["role"] == OWNER}
