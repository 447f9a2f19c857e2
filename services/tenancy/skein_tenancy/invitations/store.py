"""Invitations in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.tenancy.v1 import members_pb2 as pb
from skein_kit.errors import RateLimited
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import min_id_at, new_id, now
from skein_tenancy import convert as wire
from skein_tenancy.errors import InvitationNotFound, MemberExists
from skein_tenancy.invitations import model as invitations
from skein_tenancy.members import model as members
from skein_tenancy.members.store import insert_member
from skein_tenancy.queries import QUERIES
from skein_tenancy.store_base import StoreBase, require_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.identity.identity_token import Caller


class InvitationStore(StoreBase):
    """Who was asked to join a tenant.

    A token names its tenant, so that whoever presents one sees that tenant's invitations and nothing else.
    """

    async def create_invitation(
        self, tenant_id: UUID, draft: invitations.Draft, once: IdempotencyKey, *, most: int
    ) -> tuple[pb.CreateInvitationResponse, str]:
        """Keep an invitation; return the answer as it may be repeated, and the token, empty when it is repeated.

        Raises RateLimited for a tenant that made `most` within an hour.
        """
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.CreateInvitationResponse.FromString(first), ""
            if await tx.value(QUERIES["has_member_of_address"], tenant_id=tenant_id, email=draft.email):
                raise MemberExists
            at = now()
            # Held, so that several at once count one another.
            await tx.row(QUERIES["lock_tenant"], tenant_id=tenant_id)
            since = min_id_at(at - invitations.WINDOW)
            if await tx.value(QUERIES["count_recent_invitations"], tenant_id=tenant_id, since_id=since) >= most:
                raise RateLimited(kind="invitations", after=invitations.WINDOW.total_seconds())
            token = BearerToken.made(invitations.PREFIX, tenant_id, new_id(at))
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
            response = pb.CreateInvitationResponse(invitation=wire.invitation(require_row(row)))
            await self._answer(tx, tenant_id, once, response)
        return response, token.text()

    async def list_invitations(
        self, tenant_id: UUID, *, before: UUID | None, size: int, at: datetime
    ) -> Sequence[pb.Invitation]:
        """Read the ones that are open at this time, newest first."""
        async with self._database.tenant(tenant_id) as tx:
            rows = await tx.rows(QUERIES["list_invitations"], tenant_id=tenant_id, before=before, size=size, at=at)
        return [wire.invitation(row) for row in rows]

    async def revoke_invitation(
        self, tenant_id: UUID, invitation_id: UUID, once: IdempotencyKey
    ) -> pb.RevokeInvitationResponse:
        response = pb.RevokeInvitationResponse()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.RevokeInvitationResponse.FromString(first)
            revoked = await tx.execute(
                QUERIES["revoke_invitation"], tenant_id=tenant_id, invitation_id=invitation_id, revoke_time=now()
            )
            if not revoked:
                raise InvitationNotFound
            await self._answer(tx, tenant_id, once, response)
        return response

    async def mark_mailed(self, tenant_id: UUID, invitation_id: UUID) -> None:
        """Say that the token went to the invited address alone."""
        async with self._database.tenant(tenant_id) as tx:
            await tx.execute(QUERIES["mark_invitation_mailed"], tenant_id=tenant_id, invitation_id=invitation_id)

    async def check_invitation(self, text: str, email: str, at: datetime) -> tuple[UUID, bool]:
        """Return the open invitation that this token is, if it invites this address, and whether it was mailed."""
        token = invitations.parse_token(text)
        async with self._database.tenant(token.tenant_id) as tx:
            row = await tx.row(
                QUERIES["get_invitation"], tenant_id=token.tenant_id, invitation_id=token.token_id, at=at
            )
        offer = _offer(row)
        offer.judge(token, email, at)
        return token.token_id, offer.mailed

    async def accept_invitation(
        self, text: str, who: Caller, address: invitations.AccountAddress, once: IdempotencyKey
    ) -> pb.AcceptInvitationResponse:
        """Make the calling account, which has this address, a member, once.

        One that is a member already stays what it is: the invitation is spent, and MemberExists raised.
        """
        token = invitations.parse_token(text)
        try:
            return await self._accept(token, who, address, once)
        except MemberExists:
            async with self._database.tenant(token.tenant_id) as tx:
                await tx.execute(
                    QUERIES["use_invitation"],
                    tenant_id=token.tenant_id,
                    invitation_id=token.token_id,
                    use_time=now(),
                )
            raise

    async def delete_expired(self, tenant_id: UUID, at: datetime) -> int:
        """Remove the tenant's invitations and stored answers whose time is over; return how many."""
        async with self._database.tenant(tenant_id) as tx:
            deleted = await tx.execute(QUERIES["delete_expired_invitations"], tenant_id=tenant_id, at=at)
            return deleted + await self._requests.delete_expired(tx, tenant_id, at)

    async def _accept(
        self, token: BearerToken, who: Caller, address: invitations.AccountAddress, once: IdempotencyKey
    ) -> pb.AcceptInvitationResponse:
        tenant_id, at = token.tenant_id, now()
        async with self._database.tenant(tenant_id) as tx:
            if (first := await self._requests.claim(tx, tenant_id, once)) is not None:
                return pb.AcceptInvitationResponse.FromString(first)
            offer = _offer(
                await tx.row(QUERIES["lock_invitation"], tenant_id=tenant_id, invitation_id=token.token_id, at=at)
            )
            offer.judge(token, address.email.lower(), at)
            address.accepts(offer)
            await tx.execute(QUERIES["use_invitation"], tenant_id=tenant_id, invitation_id=token.token_id, use_time=at)
            member = await insert_member(tx, tenant_id, members.NewMember.itself(who, offer.role), at)
            response = pb.AcceptInvitationResponse(member=member, tenant_id=str(tenant_id))
            await self._answer(tx, tenant_id, once, response)
            return response


def _offer(row: asyncpg.Record | None) -> invitations.Invitation:
    if row is None:
        raise InvitationNotFound
    return invitations.Invitation(**row)
