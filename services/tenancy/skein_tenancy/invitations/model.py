"""Invitations to a tenant, and when one holds. No SQL, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_kit.identity.bearer_token import BearerToken
from skein_tenancy import convert as wire
from skein_tenancy.errors import InvitationNotFound

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from skein.tenancy.v1 import members_pb2 as pb
    from skein_kit.identity.identity_token import Caller

PREFIX = "skein_inv_"
LIFETIME = timedelta(days=7)
# In which a tenant makes no more than the settings say.
WINDOW = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An invitation on its way out."""

    # In lower case.
    email: str
    role: str
    lifetime: timedelta
    created_by: str
    # The applications' grants that make it; it ends with the first of them that ends.
    grant_ids: tuple[UUID, ...] = ()

    @classmethod
    def of(cls, request: pb.CreateInvitationRequest, creator: Caller) -> Draft:
        lifetime = request.lifetime.ToTimedelta() if request.HasField("lifetime") else LIFETIME
        return cls(
            email=request.email.lower(),
            role=wire.role_name(request.role),
            lifetime=lifetime,
            created_by=creator.principal,
            grant_ids=creator.grant_ids,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """What the database keeps about one invitation."""

    email: str
    role: str
    secret_hash: bytes = field(repr=False)
    # The token went to the address alone: whoever has it has the address.
    mailed: bool
    expire_time: datetime
    use_time: datetime | None
    revoke_time: datetime | None

    def judge(self, token: BearerToken, email: str, at: datetime) -> None:
        """Refuse, in the same words, what does not prove itself, is over or is for somebody else."""
        is_over = self.use_time is not None or self.revoke_time is not None or at >= self.expire_time
        if not token.proves(self.secret_hash) or is_over or email != self.email:
            raise InvitationNotFound


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountAddress:
    """The address of an account that wants to accept."""

    email: str
    verified: bool

    def accepts(self, offer: Invitation) -> None:
        """Refuse an address that nobody has shown to be the account's, where a mail could have been answered.

        A token that the inviter handed over shows nothing about an address, and is not asked to.
        """
        if offer.mailed and not self.verified:
            raise InvitationNotFound


def parse_token(text: str) -> BearerToken:
    """Read an invitation's token; raise InvitationNotFound for what is none."""
    token = BearerToken.read(PREFIX, text)
    if token is None:
        raise InvitationNotFound
    return token
