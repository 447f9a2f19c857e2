"""What auth says about accounts, asked in the name of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import auth_pb2
from skein_tenancy.invitations.model import AccountAddress
from skein_tenancy.members.model import NewMember

if TYPE_CHECKING:
    from skein.auth.v1 import auth_pb2_grpc
    from skein_kit.identity.identity_token import Caller


class AccountClient:
    """The accounts that auth keeps."""

    def __init__(self, identity: auth_pb2_grpc.IdentityServiceAsyncStub) -> None:
        self._identity = identity

    async def address_of(self, who: Caller) -> AccountAddress:
        """Return the address of the account that calls, whether or not it is verified."""
        if who.email:
            return AccountAddress(email=who.email, verified=True)
        request = auth_pb2.GetAccountStandingRequest(account_id=str(who.account()))
        return AccountAddress(email=(await self._identity.GetAccountStanding(request)).email, verified=False)

    async def joining(self, account_id: str, role: str, *, created_by: str) -> NewMember:
        """Return the account as a member to be. Fails like the call to auth: ACCOUNT_NOT_FOUND for nobody."""
        standing = await self._identity.GetAccountStanding(auth_pb2.GetAccountStandingRequest(account_id=account_id))
        return NewMember(
            account_id=UUID(account_id),
            role=role,
            email=standing.email,
            display_name=standing.display_name,
            created_by=created_by,
        )
