"""Invitations on their way to people: kept first, then mailed or, where that cannot be, handed over."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable

    from skein.tenancy.v1 import members_pb2 as pb
    from skein_kit.idempotency.store import IdempotencyKey
    from skein_kit.outbound.mail import Mailer
    from skein_tenancy.invitations.model import Draft
    from skein_tenancy.invitations.store import InvitationStore

_SUBJECT = "You are invited to Skein"
# Nothing in it is the inviter's to write: whoever can invite could otherwise send strangers what they like.
_TEXT = """\
Somebody asks you to join a tenant of Skein, as {role}.

To accept, open this address and sign in or sign up as {email}:

{link}

It works once, until {until} (UTC). If you know nothing of this, there is nothing that you need to do.
"""
# Nobody is there (RFC 2606), and what a relay says to that comes back to the sender.
_INVALID_DOMAIN = ".invalid"


class InvitationSender:
    """Asks people to join a tenant."""

    def __init__(self, store: InvitationStore, mailer: Mailer, issuer: Callable[[], str], *, most: int) -> None:
        """Let a tenant invite `most` people an hour.

        Link to `issuer()`, which is asked for each mail: the gateway's address is known once it listens.
        """
        self._store = store
        self._mailer = mailer
        self._issuer = issuer
        self._most = most

    async def invite(self, tenant_id: UUID, draft: Draft, once: IdempotencyKey) -> pb.CreateInvitationResponse:
        """Keep an invitation and mail it; the answer holds the token and its link when no relay took the mail."""
        response, token = await self._store.create_invitation(tenant_id, draft, once, most=self._most)
        if not token:
            return response
        link = f"{self._issuer()}/account/invitation?token={token}"
        if await self._mailed(response.invitation, draft, link):
            await self._store.mark_mailed(tenant_id, UUID(response.invitation.invitation_id))
        else:
            response.token, response.link = token, link
        return response

    async def _mailed(self, invitation: pb.Invitation, draft: Draft, link: str) -> bool:
        if not self._mailer.configured or draft.email.endswith(_INVALID_DOMAIN):
            return False
        text = _TEXT.format(
            role=draft.role,
            email=draft.email,
            link=link,
            until=f"{invitation.expire_time.ToDatetime():%Y-%m-%d %H:%M}",
        )
        return await self._mailer.send(draft.email, _SUBJECT, text)
