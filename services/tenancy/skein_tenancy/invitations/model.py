"""Invitations to a tenant, and when one can be accepted. No gRPC, no SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from skein_kit.identity.bearer_token import BearerToken
from skein_tenancy.errors import InvitationNotFound
from skein_tenancy.members.model import AccountAddress

PREFIX = "skein_inv_"
DEFAULT_LIFETIME = timedelta(days=7)
# The time in which MAX_INVITATIONS_PER_HOUR counts.
RATE_WINDOW = timedelta(hours=1)
# Invitations of one tenant within the window: a department at once, and too few for a sender of unwanted mail.
MAX_INVITATIONS_PER_HOUR = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class InvitationDraft:
    """The validated content of an invitation to be created."""

    # In lower case.
    email: str
    role: str
    lifetime: timedelta
    created_by: str
    # The grants of the applications that make it; the invitation ends with the first of them.
    grant_ids: tuple[UUID, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """An invitation, as members of its tenant see it."""

    invitation_id: UUID
    email: str
    role: str
    create_time: datetime
    expire_time: datetime
    created_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RedeemableInvitation:
    """The columns of an invitation that decide whether a token is accepted."""

    email: str
    role: str
    secret_hash: bytes = field(repr=False)
    # The token went to the address alone, so its bearer owns the address.
    is_mailed: bool
    expire_time: datetime
    use_time: datetime | None
    revoke_time: datetime | None

    def verify(self, token: BearerToken, email: str, at: datetime) -> None:
        """Raise InvitationNotFound, without saying why, for a wrong secret or address and for an ended invitation."""
        is_closed = self.use_time is not None or self.revoke_time is not None or at >= self.expire_time
        if not token.matches_hash(self.secret_hash) or is_closed or email != self.email:
            raise InvitationNotFound

    def require_verified(self, address: AccountAddress) -> None:
        """Raise InvitationNotFound for an unverified address when the invitation was mailed.

        A token that the inviter handed over proves no address, so none is required.
        """
        if self.is_mailed and not address.is_verified:
            raise InvitationNotFound


def parse_token(text: str) -> BearerToken:
    """Read an invitation's token. Raises InvitationNotFound for a malformed one."""
    token = BearerToken.decode(PREFIX, text)
    if token is None:
        raise InvitationNotFound
    return token
