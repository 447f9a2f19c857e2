"""Invitations in the database. Methods that take `tx` work in the caller's transaction, which sees the tenant."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import asyncpg

from skein_kit.database.transactions import Database, Transaction
from skein_kit.errors import RateLimited
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import min_id_at, new_id, now
from skein_tenancy.errors import InvitationNotFound, MemberExists
from skein_tenancy.invitations.model import PREFIX, RATE_WINDOW, Invitation, InvitationDraft, RedeemableInvitation
from skein_tenancy.members.model import AccountAddress, Member, NewMember
from skein_tenancy.members.store import MemberStore
from skein_tenancy.queries import QUERIES
from skein_tenancy.rows import require_row


class InvitationStore:
    """Invitations to join a tenant.

    A token names its tenant, so that its bearer reaches that tenant's invitations only.
    """

    def __init__(self, database: Database, members: MemberStore) -> None:
        self._database = database
        self._members = members

    async def create_invitation(
        self, tx: Transaction, tenant_id: UUID, draft: InvitationDraft, *, max_per_hour: int
    ) -> tuple[Invitation, str]:
        """Return the invitation and its token. Raises MemberExists, and RateLimited after `max_per_hour`."""
        if await tx.value(QUERIES["has_member_of_address"], tenant_id=tenant_id, email=draft.email):
            raise MemberExists
        at = now()
        # Concurrent invitations wait here, so that each counts the others.
        await tx.row(QUERIES["lock_tenant"], tenant_id=tenant_id)
        since_id = min_id_at(at - RATE_WINDOW)
        count = await tx.value(QUERIES["count_recent_invitations"], tenant_id=tenant_id, since_id=since_id)
        if count >= max_per_hour:
            raise RateLimited(kind="invitations", retry_after=RATE_WINDOW.total_seconds())
        token = BearerToken.generate(PREFIX, tenant_id, new_id(at))
        row = await tx.row(
            QUERIES["create_invitation"],
            tenant_id=tenant_id,
            invitation_id=token.token_id,
            email=draft.email,
            role=draft.role,
            secret_hash=token.secret_hash(),
            create_time=at,
            expire_time=at + draft.lifetime,
            created_by=draft.created_by,
            grant_ids=list(draft.grant_ids),
        )
        return Invitation(**require_row(row)), token.encode()

    async def list_invitations(
        self, tenant_id: UUID, *, before: UUID | None, size: int, at: datetime
    ) -> list[Invitation]:
        """Read the invitations that are open at a time, newest first."""
        async with self._database.transaction(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_invitations"], tenant_id=tenant_id, before=before, size=size, at=at)
        return [Invitation(**row) for row in rows]

    async def revoke_invitation(self, tx: Transaction, tenant_id: UUID, invitation_id: UUID) -> None:
        """Raises InvitationNotFound for one that is not open."""
        revoked_count = await tx.execute(
            QUERIES["revoke_invitation"], tenant_id=tenant_id, invitation_id=invitation_id, revoke_time=now()
        )
        if not revoked_count:
            raise InvitationNotFound

    async def mark_mailed(self, tenant_id: UUID, invitation_id: UUID) -> None:
        """Record that the token was sent to the invited address alone."""
        async with self._database.transaction(tenant_id) as tx:
            await tx.execute(QUERIES["mark_invitation_mailed"], tenant_id=tenant_id, invitation_id=invitation_id)

    async def check_invitation(self, token: BearerToken, email: str, at: datetime) -> RedeemableInvitation:
        """Return the open invitation of a token and an address. Raises InvitationNotFound."""
        async with self._database.transaction(token.tenant_id) as tx:
            row = await tx.row(
                QUERIES["get_invitation"], tenant_id=token.tenant_id, invitation_id=token.token_id, at=at
            )
        invitation = _require_invitation(row)
        invitation.verify(token, email, at)
        return invitation

    async def accept_invitation(
        self, tx: Transaction, token: BearerToken, caller: Caller, address: AccountAddress
    ) -> Member:
        """Use an invitation and add the calling account, which has this address, as a member.

        Raises InvitationNotFound, QuotaExceeded, and MemberExists for a member, whose role stays.
        """
        at = now()
        row = await tx.row(QUERIES["lock_invitation"], tenant_id=token.tenant_id, invitation_id=token.token_id, at=at)
        invitation = _require_invitation(row)
        invitation.verify(token, address.email.lower(), at)
        invitation.require_verified(address)
        await tx.execute(
            QUERIES["use_invitation"], tenant_id=token.tenant_id, invitation_id=token.token_id, use_time=at
        )
        return await self._members.add_member(tx, token.tenant_id, NewMember.from_caller(caller, invitation.role))

    async def use_invitation(self, token: BearerToken, at: datetime) -> None:
        """Mark an invitation as used, in a transaction of its own."""
        async with self._database.transaction(token.tenant_id) as tx:
            await tx.execute(
                QUERIES["use_invitation"], tenant_id=token.tenant_id, invitation_id=token.token_id, use_time=at
            )

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Remove the tenant's expired invitations; return how many."""
        async with self._database.transaction(tenant_id) as tx:
            return await tx.execute(QUERIES["delete_expired_invitations"], tenant_id=tenant_id, at=at)


def _require_invitation(row: asyncpg.Record | None) -> RedeemableInvitation:
    if row is None:
        raise InvitationNotFound
    return RedeemableInvitation(**row)
