"""Mails of invitations, and the links in them."""

from __future__ import annotations

from collections.abc import Callable

from skein_kit.outbound.mail import Mailer
from skein_tenancy.invitations.model import Invitation

_SUBJECT = "You are invited to Skein"
# The inviter writes none of it: otherwise every inviter could send arbitrary text to strangers.
_TEXT = """\
You are invited to join a tenant of Skein, as {role}.

To accept, open this address and sign in or sign up as {email}:

{link}

It works once, until {expire_time} (UTC). If you do not expect this invitation, ignore it.
"""
# No mail reaches this domain (RFC 2606), and a relay would return it to the sender.
_INVALID_DOMAIN = ".invalid"


class InvitationMailer:
    """Sends invitations by mail."""

    def __init__(self, mailer: Mailer, issuer: Callable[[], str]) -> None:
        """Link to `issuer()`, called for each mail: the gateway's address is known only once it listens."""
        self._mailer = mailer
        self._issuer = issuer

    def link(self, token: str) -> str:
        return f"{self._issuer()}/account/invitation?token={token}"

    async def send(self, invitation: Invitation, link: str) -> bool:
        """Return whether a relay took the mail."""
        if not self._mailer.configured or invitation.email.endswith(_INVALID_DOMAIN):
            return False
        text = _TEXT.format(
            role=invitation.role,
            email=invitation.email,
            link=link,
            expire_time=f"{invitation.expire_time:%Y-%m-%d %H:%M}",
        )
        return await self._mailer.send(invitation.email, _SUBJECT, text)
