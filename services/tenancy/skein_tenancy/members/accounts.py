"""A client of auth's accounts. Calls carry the identity of the current caller."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import auth_pb2, auth_pb2_grpc
from skein_kit.identity.identity_token import Caller
from skein_tenancy.members.model import AccountAddress, NewMember


class AccountClient:
    """Reads accounts from auth."""

    def __init__(self, identity: auth_pb2_grpc.AuthInternalServiceAsyncStub) -> None:
        self._identity = identity

    async def get_address(self, caller: Caller) -> AccountAddress:
        """Return the e-mail address of the calling account, verified or not."""
        if caller.email:
            return AccountAddress(email=caller.email, is_verified=True)
        request = auth_pb2.GetAccountStateRequest(account_id=str(caller.require_account()))
        return AccountAddress(email=(await self._identity.GetAccountState(request)).email, is_verified=False)

    async def get_new_member(self, account_id: str, role: str, *, created_by: str) -> NewMember:
        """Return an account as a new member. Fails with auth's ACCOUNT_NOT_FOUND."""
        account = await self._identity.GetAccountState(auth_pb2.GetAccountStateRequest(account_id=account_id))
        return NewMember(
            account_id=UUID(account_id),
            role=role,
            email=account.email,
            display_name=account.display_name,
            created_by=created_by,
        )
