"""Calls to tenancy as `system:auth` about invitations and memberships of accounts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from skein.tenancy.v1 import members_pb2
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import SYSTEM

if TYPE_CHECKING:
    from uuid import UUID

    from skein.tenancy.v1 import tenancy_pb2_grpc
    from skein_auth.signing.keyring import Keyring

_SELF = Caller(principal="system:auth", tenant_id=None, permissions=frozenset({SYSTEM}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitation:
    """An open invitation."""

    # Its token was mailed to the invited address alone, so its holder owns the address.
    mailed: bool


class MembershipClient:
    """The memberships and invitations that tenancy keeps."""

    def __init__(self, tenancy: tenancy_pb2_grpc.TenancyInternalServiceAsyncStub, keyring: Keyring) -> None:
        self._tenancy = tenancy
        self._keyring = keyring

    async def invitation(self, token: str, email: str) -> Invitation | None:
        """Return an open invitation for this address; None without one. Raises the errors of the call to tenancy."""
        request = members_pb2.CheckInvitationRequest(token=token, email=email)
        try:
            response = await self._tenancy.CheckInvitation(request, metadata=await self._metadata())
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return Invitation(mailed=response.mailed)

    async def remove_account(self, account_id: UUID) -> None:
        """Remove all memberships of an account. Raises the errors of the call to tenancy, such as LAST_OWNER."""
        request = members_pb2.RemoveAccountRequest(account_id=str(account_id))
        await self._tenancy.RemoveAccount(request, metadata=await self._metadata())

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        token, _ = await self._keyring.sign_identity(_SELF, at=time.time())
        return (("authorization", f"Bearer {token}"),)
