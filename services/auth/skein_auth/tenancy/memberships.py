"""What tenancy knows of accounts: whom somebody invited, and what is left of who goes. Asked as `system:auth`."""

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
    """What an invitation shows about who presents its token."""

    # The token was sent to the invited address alone, which is therefore theirs.
    mailed: bool


class MembershipClient:
    """The memberships and invitations that tenancy keeps."""

    def __init__(self, upkeep: tenancy_pb2_grpc.UpkeepServiceAsyncStub, keyring: Keyring) -> None:
        self._upkeep = upkeep
        self._keyring = keyring

    async def invitation(self, token: str, email: str) -> Invitation | None:
        """Return what an open invitation for this address shows, None without one. Fails like the call to tenancy."""
        request = members_pb2.CheckInvitationRequest(token=token, email=email)
        try:
            found = await self._upkeep.CheckInvitation(request, metadata=await self._metadata())
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise
        return Invitation(mailed=found.mailed)

    async def remove_account(self, account_id: UUID) -> None:
        """End all memberships of an account. Fails like the call to tenancy, with LAST_OWNER for one."""
        request = members_pb2.RemoveAccountRequest(account_id=str(account_id))
        await self._upkeep.RemoveAccount(request, metadata=await self._metadata())

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        token, _ = await self._keyring.signed(_SELF, at=time.time())
        return (("authorization", f"Bearer {token}"),)
