"""The RPCs of auth sessions: refresh, logout, list and revocation."""

from __future__ import annotations

from uuid import UUID

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import ListedAuthSession, SessionTokens
from skein_auth.auth_sessions.store import AuthSessionStore, revoke_all_sessions, revoke_one_session
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import FieldInvalid
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.identity.permissions import TENANT_PERMISSIONS
from skein_kit.ids import now
from skein_kit.rpc import pagination
from skein_kit.rpc.well_known_types import to_message


class AuthSessionHandlers:
    """Auth sessions of accounts."""

    def __init__(
        self, sessions: AuthSessions, store: AuthSessionStore, audit: AuditRecorder, idempotency: IdempotencyStore
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._audit = audit
        self._idempotency = idempotency

    async def RefreshSession(self, request: pb.RefreshSessionRequest, context: Context) -> pb.RefreshSessionResponse:
        return pb.RefreshSessionResponse(tokens=session_tokens(await self._sessions.refresh(request.refresh_token)))

    async def SignOut(self, request: pb.SignOutRequest, context: Context) -> pb.SignOutResponse:
        session_id = caller_of(context).auth_session_id
        if session_id is not None and await self._store.revoke(NO_TENANT, session_id, now(), "sign_out"):
            await self._audit.record("sign_out")
        return pb.SignOutResponse()

    async def ListAuthSessions(
        self, request: pb.ListAuthSessionsRequest, context: Context
    ) -> pb.ListAuthSessionsResponse:
        caller = caller_of(context)
        account_id, current_id = caller.require_account(), caller.auth_session_id
        size = pagination.resolve_page_size(request.page_size)
        before = pagination.read_id(account_id, request)
        page, token = pagination.fit_rows(
            await self._store.list_of_account(account_id, now(), before=before, size=size + 1),
            lambda session: _auth_session(session, is_current=session.auth_session_id == current_id),
            lambda session: [str(session.auth_session_id)],
            request,
            account_id,
            size=size,
        )
        return pb.ListAuthSessionsResponse(auth_sessions=page, next_page_token=token)

    async def RevokeAuthSession(
        self, request: pb.RevokeAuthSessionRequest, context: Context
    ) -> pb.RevokeAuthSessionResponse:
        caller = caller_of(context)
        if bool(request.auth_session_id) == request.all_others:
            raise FieldInvalid(violations=[("auth_session_id", "or all_others is needed, and not both")])
        account_id, at, reason = caller.require_account(), now(), "revoked_by_account"
        async with self._idempotency.begin_as_account(account_id, IdempotencyKey.of(caller, request)) as write:
            target, count = "", 1
            if request.all_others:
                count = await revoke_all_sessions(
                    write.tx, account_id, at, reason, except_session=caller.auth_session_id
                )
            else:
                session_id = UUID(request.auth_session_id)
                await revoke_one_session(write.tx, account_id, session_id, at, reason)
                target = f"sign_in:{session_id}"
            await self._audit.record_in(write.tx, "sign_in_revoked", account_id=account_id, target=target)
            return await write.save(pb.RevokeAuthSessionResponse(revoked_count=count))


def session_tokens(value: SessionTokens) -> pb.SignInTokens:
    return to_message(pb.SignInTokens, value)


def _auth_session(value: ListedAuthSession, *, is_current: bool) -> pb.AuthSession:
    return to_message(
        pb.AuthSession,
        value,
        auth_session_id=str(value.auth_session_id),
        tenant_id="" if value.tenant_id == NO_TENANT else str(value.tenant_id),
        permissions=[scope for scope in value.scopes if scope in TENANT_PERMISSIONS],
        current=is_current,
    )
