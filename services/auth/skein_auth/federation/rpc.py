"""RPCs: login with an identity provider, and linked identities."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate

if TYPE_CHECKING:
    from skein_auth.federation.federated_login import FederatedLogin
    from skein_auth.federation.store import IdentityStore


class FederationRpc:
    """Login with an identity provider, and linked identities."""

    def __init__(self, login: FederatedLogin, store: IdentityStore) -> None:
        self._login = login
        self._store = store

    async def SignInWithIdentity(
        self, request: accounts_pb2.SignInWithIdentityRequest, context: Context
    ) -> accounts_pb2.SignInWithIdentityResponse:
        signed_in = await self._login.sign_in(request)
        return accounts_pb2.SignInWithIdentityResponse(
            tokens=signed_in.tokens,
            account=signed_in.account,
            created=signed_in.created,
            device_token=signed_in.device_token,
        )

    async def LinkIdentity(
        self, request: accounts_pb2.LinkIdentityRequest, context: Context
    ) -> accounts_pb2.LinkIdentityResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._login.link(who, request.provider, request.token, request.nonce, once)

    async def UnlinkIdentity(
        self, request: accounts_pb2.UnlinkIdentityRequest, context: Context
    ) -> accounts_pb2.UnlinkIdentityResponse:
        who = caller(context)
        await self._store.unlink(who.account(), UUID(request.identity_id), IdempotencyKey.of(who, request))
        return accounts_pb2.UnlinkIdentityResponse()

    async def ListIdentities(
        self, request: accounts_pb2.ListIdentitiesRequest, context: Context
    ) -> accounts_pb2.ListIdentitiesResponse:
        found = await self._store.list_identities(caller(context).account())
        page, token = paginate(
            found, lambda identity: identity.identity_id, request, None, size=request.page_size or MAX_UNPAGED
        )
        return accounts_pb2.ListIdentitiesResponse(identities=page, next_page_token=token)
