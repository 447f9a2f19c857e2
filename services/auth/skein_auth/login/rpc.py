"""RPCs: login, refresh and logout of people, and the list of their auth sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from skein.auth.v1 import accounts_pb2
from skein_auth.pages import id_before
from skein_kit.calls.call import Context, caller
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.key import IdempotencyKey
from skein_kit.rpc import pagination

if TYPE_CHECKING:
    from skein_auth.accounts.store import AccountStore
    from skein_auth.login.password_login import PasswordLogin


class LoginRpc:
    """Login, refresh and logout of people, and the list of their auth sessions."""

    def __init__(self, login: PasswordLogin, accounts: AccountStore) -> None:
        self._login = login
        self._accounts = accounts

    async def SignIn(self, request: accounts_pb2.SignInRequest, context: Context) -> accounts_pb2.SignInResponse:
        tokens, account, device_token = await self._login.sign_in(request)
        return accounts_pb2.SignInResponse(tokens=tokens, account=account, device_token=device_token)

    async def RefreshSession(
        self, request: accounts_pb2.RefreshSessionRequest, context: Context
    ) -> accounts_pb2.RefreshSessionResponse:
        return accounts_pb2.RefreshSessionResponse(tokens=await self._login.refresh(request.refresh_token))

    async def SignOut(self, request: accounts_pb2.SignOutRequest, context: Context) -> accounts_pb2.SignOutResponse:
        await self._login.sign_out(caller(context))
        return accounts_pb2.SignOutResponse()

    async def ListAuthSessions(
        self, request: accounts_pb2.ListAuthSessionsRequest, context: Context
    ) -> accounts_pb2.ListAuthSessionsResponse:
        who = caller(context)
        size = pagination.resolve_page_size(request.page_size)
        before = id_before(pagination.read_token(request.page_token, who.account(), request))
        found = await self._login.list_sessions(who, before, size + 1)
        response = accounts_pb2.ListAuthSessionsResponse(auth_sessions=found[:size])
        if len(found) > size:
            response.next_page_token = pagination.write_token([found[size - 1].auth_session_id], who.account(), request)
        return response

    async def RevokeAuthSession(
        self, request: accounts_pb2.RevokeAuthSessionRequest, context: Context
    ) -> accounts_pb2.RevokeAuthSessionResponse:
        who = caller(context)
        if bool(request.auth_session_id) == request.all_others:
            raise FieldInvalid(violations=[("auth_session_id", "or all_others is needed, and not both")])
        sign_in_id = UUID(request.auth_session_id) if request.auth_session_id else None
        return await self._accounts.revoke_auth_session(
            who.account(), sign_in_id, IdempotencyKey.of(who, request), but=who.sign_in_id
        )
