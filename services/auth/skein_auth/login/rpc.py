"""The RPCs that concern signing in and what came of it: parse, one call, reply."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.rpc_group import Rpcs, id_before
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey
from skein_kit.rpc import pagination


class SignInRpcs(Rpcs):
    """Sign-ins of people."""

    async def SignIn(self, request: pb.SignInRequest, context: Context) -> pb.SignInResponse:
        tokens, account, device_token = await self._parts.signing_in.sign_in(request)
        return pb.SignInResponse(tokens=tokens, account=account, device_token=device_token)

    async def RefreshSession(self, request: pb.RefreshSessionRequest, context: Context) -> pb.RefreshSessionResponse:
        return pb.RefreshSessionResponse(tokens=await self._parts.signing_in.refresh(request.refresh_token))

    async def SignOut(self, request: pb.SignOutRequest, context: Context) -> pb.SignOutResponse:
        await self._parts.signing_in.sign_out(caller(context))
        return pb.SignOutResponse()

    async def ListAuthSessions(
        self, request: pb.ListAuthSessionsRequest, context: Context
    ) -> pb.ListAuthSessionsResponse:
        who = caller(context)
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, who.account(), request))
        found = await self._parts.signing_in.list_sessions(who, before, size + 1)
        response = pb.ListAuthSessionsResponse(auth_sessions=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].auth_session_id], who.account(), request)
        return response

    async def RevokeAuthSession(
        self, request: pb.RevokeAuthSessionRequest, context: Context
    ) -> pb.RevokeAuthSessionResponse:
        who = caller(context)
        if bool(request.auth_session_id) == request.all_others:
            raise FieldInvalid(violations=[("auth_session_id", "or all_others is needed, and not both")])
        sign_in_id = UUID(request.auth_session_id) if request.auth_session_id else None
        return await self._parts.accounts.revoke_auth_session(
            who.account(), sign_in_id, IdempotencyKey.of(who, request), but=who.sign_in_id
        )
