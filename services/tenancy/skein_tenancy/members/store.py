"""Memberships in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.ids import now
from skein_tenancy import convert as wire
from skein_tenancy.errors import MemberExists, MemberNotFound
from skein_tenancy.members import model as members
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import QUOTAS, StoreBase, check_revision, require_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.database.transactions import Transaction
    from skein_kit.idempotency.store import IdempotencyKey


class MemberStore(StoreBase):
    """Who is what in a tenant.

    Whatever ends or lowers a membership locks the tenant's owners first, so that the last one is seen to be the last.
    """

    async def get_standing(self, tenant_id: UUID, account_id: UUID | None) -> pb.GetStandingResponse:
        async with self._database.tenant(tenant_id, plans_again=False, reads=True) as tx:
            row = await tx.row(QUERIES["get_standing"], tenant_id=tenant_id, account_id=account_id)
        return wire.membership(row)

    async def add_member(
        self, tenant_id: UUID, joining: members.NewMember, once: IdempotencyKey
    ) -> pb.AddMemberResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.AddMemberResponse.FromString(first)
            response = pb.AddMemberResponse(member=await insert_member(tx, tenant_id, joining, now()))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def get_member(self, tenant_id: UUID, account_id: UUID) -> pb.Member:
        async with self._database.tenant(tenant_id) as tx:
            row = await tx.row(QUERIES["get_member"], tenant_id=tenant_id, account_id=account_id)
        if row is None:
            raise MemberNotFound
        return wire.member(row)

    async def list_members(
        self, tenant_id: UUID, *, after: tuple[datetime, UUID] | None, size: int
    ) -> Sequence[pb.Member]:
        """Read members who joined after the one that `after` tells of."""
        after_time, after_id = after or (None, None)
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(
                QUERIES["list_members"], tenant_id=tenant_id, after_time=after_time, after_id=after_id, size=size
            )
        return [wire.member(row) for row in rows]

    async def update_member(
        self, tenant_id: UUID, change: members.RoleChange, once: IdempotencyKey, *, by: members.Authority
    ) -> pb.UpdateMemberResponse:
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.UpdateMemberResponse.FromString(first)
            locked = await self._locked(tx, tenant_id, change.account_id)
            current = _require_member(locked, change.account_id)
            by.must_reach(current["role"])
            by.must_cover(change.role, instead_of=current["role"])
            check_revision(change.revision, current)
            if current["role"] == members.OWNER != change.role:
                members.require_remaining_owner(tenant_id, _owners(locked), without=change.account_id)
            response = pb.UpdateMemberResponse(member=await self._give(tx, tenant_id, change.account_id, change.role))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def remove_member(
        self, tenant_id: UUID, account_id: UUID, once: IdempotencyKey, *, by: members.Authority
    ) -> pb.RemoveMemberResponse:
        response = pb.RemoveMemberResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.RemoveMemberResponse.FromString(first)
            locked = await self._locked(tx, tenant_id, account_id)
            by.must_reach(_require_member(locked, account_id)["role"])
            await self._end(tx, tenant_id, account_id, locked)
            await self._answer(tx, tenant_id, once, response)
        return response

    async def leave_tenant(self, tenant_id: UUID, account_id: UUID, once: IdempotencyKey) -> pb.LeaveTenantResponse:
        response = pb.LeaveTenantResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.LeaveTenantResponse.FromString(first)
            await self._end(tx, tenant_id, account_id, await self._locked(tx, tenant_id, account_id))
            await self._answer(tx, tenant_id, once, response)
        return response

    async def transfer_ownership(
        self, tenant_id: UUID, transfer: members.OwnershipTransfer, once: IdempotencyKey
    ) -> pb.TransferOwnershipResponse:
        """Make one member an owner and, if somebody steps down, that owner an admin."""
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.TransferOwnershipResponse.FromString(first)
            locked = await self._locked(tx, tenant_id, transfer.to)
            _require_member(locked, transfer.to)
            if transfer.by is not None:
                if transfer.by not in _owners(locked):
                    raise MemberNotFound
                await self._give(tx, tenant_id, transfer.by, members.ADMIN)
            response = pb.TransferOwnershipResponse(member=await self._give(tx, tenant_id, transfer.to, members.OWNER))
            await self._answer(tx, tenant_id, once, response)
            return response

    async def remove_account(self, account_id: UUID) -> int:
        """End every membership of an account; none at all while it is the last owner of an open tenant.

        Each tenant is a transaction of its own: one that loses its other owner meanwhile keeps this one, and whatever
        was ended before stays ended.
        """
        async with self._database.account(account_id) as tx:
            memberships = await tx.rows(QUERIES["list_memberships"], account_id=account_id)
        for membership in memberships:
            if membership["role"] == members.OWNER:
                async with self._database.tenant(membership["tenant_id"]) as tx:
                    await self._must_spare(tx, membership["tenant_id"], account_id)
        removed = 0
        for membership in memberships:
            async with self._database.tenant(membership["tenant_id"]) as tx:
                if await self._must_spare(tx, membership["tenant_id"], account_id):
                    removed += await self._delete(tx, membership["tenant_id"], account_id)
        return removed

    async def _must_spare(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> bool:
        """Refuse when an open tenant would lose its last owner; say whether the account is a member still."""
        standing = await tx.row(QUERIES["get_standing"], tenant_id=tenant_id, account_id=account_id)
        locked = await self._locked(tx, tenant_id, account_id)
        if account_id not in locked:
            return False
        if standing is not None and standing["is_active"] and account_id in _owners(locked):
            members.require_remaining_owner(tenant_id, _owners(locked), without=account_id)
        return True

    async def _locked(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> Mapping[UUID, asyncpg.Record]:
        """Lock the member, if the account is one, and all owners; return them by account."""
        rows = await tx.rows(QUERIES["lock_members"], tenant_id=tenant_id, account_ids=[account_id])
        return {row["account_id"]: row for row in rows}

    async def _give(self, tx: Transaction, tenant_id: UUID, account_id: UUID, role: str) -> pb.Member:
        row = await tx.row(
            QUERIES["update_member"], tenant_id=tenant_id, account_id=account_id, role=role, update_time=now()
        )
        await self._revoke_invitations(tx, tenant_id, account_id, members.invitable_roles(role))
        return wire.member(require_row(row))

    async def _end(
        self, tx: Transaction, tenant_id: UUID, account_id: UUID, locked: Mapping[UUID, asyncpg.Record]
    ) -> None:
        if _require_member(locked, account_id)["role"] == members.OWNER:
            members.require_remaining_owner(tenant_id, _owners(locked), without=account_id)
        await self._delete(tx, tenant_id, account_id)

    async def _delete(self, tx: Transaction, tenant_id: UUID, account_id: UUID) -> int:
        deleted = await tx.execute(QUERIES["delete_member"], tenant_id=tenant_id, account_id=account_id)
        await self._revoke_invitations(tx, tenant_id, account_id, roles=[])
        await self._quotas.charge(tx, tenant_id, {"members": -deleted})
        return deleted

    @staticmethod
    async def _revoke_invitations(tx: Transaction, tenant_id: UUID, account_id: UUID, roles: Sequence[str]) -> None:
        """End a member's open invitations except those to the roles that the member can still invite to."""
        await tx.execute(
            QUERIES["revoke_invitations_of"],
            tenant_id=tenant_id,
            created_by=f"account:{account_id}",
            revoke_time=now(),
            roles=list(roles),
        )


async def insert_member(tx: Transaction, tenant_id: UUID, joining: members.NewMember, at: datetime) -> pb.Member:
    """Make an account a member, in the transaction of whoever lets it in. Raises MemberExists and QuotaExceeded."""
    row = await tx.row(
        QUERIES["create_member"],
        tenant_id=tenant_id,
        account_id=joining.account_id,
        role=joining.role,
        email=joining.email,
        display_name=joining.display_name,
        create_time=at,
        created_by=joining.created_by,
    )
    if row is None:
        raise MemberExists
    await QUOTAS.charge(tx, tenant_id, {"members": 1})
    return wire.member(row)


def _require_member(locked: Mapping[UUID, asyncpg.Record], account_id: UUID) -> asyncpg.Record:
    if account_id not in locked:
        raise MemberNotFound
    return locked[account_id]


def _owners(locked: Mapping[UUID, asyncpg.Record]) -> set[UUID]:
    return {account_id for account_id, row in locked.items() if row["role"] == members.OWNER}
