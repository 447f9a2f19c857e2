"""The RPCs that concern identity providers: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.rpc_group import Rpcs
from skein_kit.calls.call import Context, caller
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc.pagination import MAX_UNPAGED, paginate


class IdentityRpcs(Rpcs):
    """Signing in with what an identity provider says."""

    async def SignInWithIdentity(
        self, request: pb.SignInWithIdentityRequest, context: Context
    ) -> pb.SignInWithIdentityResponse:
        signed_in = await self._parts.linked.sign_in(request)
        return pb.SignInWithIdentityResponse(
            tokens=signed_in.tokens,
            account=signed_in.account,
            created=signed_in.created,
            device_token=signed_in.device_token,
        )

    async def LinkIdentity(self, request: pb.LinkIdentityRequest, context: Context) -> pb.LinkIdentityResponse:
        who = caller(context)
        once = IdempotencyKey.of(who, request)
        return await self._parts.linked.link(who, request.provider, request.token, request.nonce, once)

    async def UnlinkIdentity(self, request: pb.UnlinkIdentityRequest, context: Context) -> pb.UnlinkIdentityResponse:
        who = caller(context)
        await self._parts.linked.store.unlink(who.account(), UUID(request.identity_id), IdempotencyKey.of(who, request))
        return pb.UnlinkIdentityResponse()

    async def ListIdentities(self, request: pb.ListIdentitiesRequest, context: Context) -> pb.ListIdentitiesResponse:
        found = await self._parts.linked.store.list_identities(caller(context).account())
        page, token = paginate(
            found, lambda identity: identity.identity_id, request, None, size=request.page_size or MAX_UNPAGED
        )
        return pb.ListIdentitiesResponse(identities=page, next_page_token=token)
