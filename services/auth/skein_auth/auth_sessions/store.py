"""Auth sessions, authorization codes and refresh tokens in the database.

The row lock of the session decides which of several callers with one code or token is first.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import (
    AuthorizationCode,
    AuthSession,
    AuthSessionState,
    CodeRequest,
    GrantChanges,
    GrantResult,
    ListedAuthSession,
    RefreshRequest,
    RefreshToken,
    RefreshTokenState,
    StepContext,
)
from skein_auth.errors import AuthSessionNotFound, InvalidRequest
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import Database, Transaction, translate_constraint_errors
from skein_kit.errors import CredentialInvalid
from skein_kit.identity.bearer_token import BearerToken

_CLIENT_EXPIRY_STEP = timedelta(days=1)
_REFERENCES = {"auth_sessions_client_fkey": InvalidRequest, "auth_sessions_account_fkey": CredentialInvalid}


class AuthSessionStore:
    """Auth sessions of accounts, with their codes and refresh tokens.

    A refused code or token may change the session. So `redeem` and `refresh` commit and return the error as a value.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, session: AuthSession, changes: GrantChanges, *, address: str = "", user_agent: str = ""
    ) -> None:
        """Create a session with its first tokens. Raises InvalidRequest and CredentialInvalid."""
        async with self._database.transaction(session.tenant_id) as tx:
            await create_auth_session(tx, session, address=address, user_agent=user_agent)
            await apply_changes(tx, session, changes)

    async def approve(
        self, session: AuthSession, code: AuthorizationCode, *, address: str = "", user_agent: str = ""
    ) -> None:
        """Create the session of a grant and its authorization code. Raises InvalidRequest and CredentialInvalid."""
        async with self._database.transaction(session.tenant_id) as tx:
            await create_auth_session(tx, session, address=address, user_agent=user_agent)
            await tx.execute(
                QUERIES["create_code"],
                tenant_id=session.tenant_id,
                code_id=code.code_id,
                auth_session_id=session.auth_session_id,
                secret_hash=code.secret_hash,
                redirect_uri=code.redirect_uri,
                code_challenge=code.code_challenge,
                create_time=code.create_time,
                expire_time=code.expire_time,
            )

    async def redeem(
        self, presented_token: BearerToken, request: CodeRequest, context: StepContext
    ) -> tuple[GrantResult, AuthSession | None]:
        """Redeem an authorization code; return the result, and the code's session, None for an unknown code."""
        tenant_id = presented_token.tenant_id
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(
                QUERIES["lock_auth_session_of_code"], tenant_id=tenant_id, token_id=presented_token.token_id
            )
            if row is None:
                return grants.redeem(None, presented_token, request, context), None
            # Read after the lock, so that the use by an earlier transaction shows.
            code = await tx.row(QUERIES["get_code"], tenant_id=tenant_id, code_id=presented_token.token_id)
            session = _session(row)
            state = None if code is None else (session, AuthorizationCode(**code))
            result = grants.redeem(state, presented_token, request, context)
            await apply_changes(tx, session, result.changes)
        return result, session

    async def refresh(
        self, presented_token: BearerToken, request: RefreshRequest, context: StepContext
    ) -> tuple[GrantResult, AuthSession | None]:
        """Replace a refresh token; return the result, and the token's session, None for an unknown token."""
        tenant_id, token_id = presented_token.tenant_id, presented_token.token_id
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["lock_auth_session_of_refresh_token"], tenant_id=tenant_id, token_id=token_id)
            if row is None:
                return grants.refresh(None, presented_token, request, context), None
            tokens = await tx.row(QUERIES["get_refresh_token"], tenant_id=tenant_id, refresh_token_id=token_id)
            session = _session(row)
            result = grants.refresh(_refresh_token_state(session, tokens), presented_token, request, context)
            await apply_changes(tx, session, result.changes)
        return result, session

    async def get_refresh_token_state(self, presented_token: BearerToken) -> RefreshTokenState | None:
        """Read a refresh token and its session without a row lock; None for an unknown token or a wrong secret."""
        tenant_id, token_id = presented_token.tenant_id, presented_token.token_id
        async with self._database.transaction(tenant_id) as tx:
            tokens = await tx.row(QUERIES["get_refresh_token"], tenant_id=tenant_id, refresh_token_id=token_id)
            row = await tx.row(QUERIES["get_auth_session_of_refresh_token"], tenant_id=tenant_id, token_id=token_id)
        state = None if row is None else _refresh_token_state(_session(row), tokens)
        return state if state is not None and presented_token.matches_hash(state.token.secret_hash) else None

    async def revoke(self, tenant_id: UUID, session_id: UUID, at: datetime, reason: str) -> bool:
        """Revoke a session; return whether it was live."""
        async with self._database.transaction(tenant_id) as tx:
            query = QUERIES["revoke_auth_session"]
            return bool(await tx.execute(query, tenant_id=tenant_id, auth_session_id=session_id, at=at, reason=reason))

    async def revoke_of_account(self, account_id: UUID, session_id: UUID, at: datetime, reason: str) -> None:
        """Revoke one session of an account, in any tenant, if it is live."""
        async with self._database.account_transaction(account_id) as tx:
            await _revoke_of_account(tx, account_id, session_id, at, reason)

    async def list_of_account(
        self, account_id: UUID, at: datetime, *, before: UUID | None, size: int
    ) -> list[ListedAuthSession]:
        """Read the account's live sessions, newest first, from before this id; None for the first page."""
        async with self._database.account_transaction(account_id) as tx:
            query = QUERIES["list_auth_sessions_of_account"]
            rows = await tx.rows(query, account_id=account_id, at=at, before=before, size=size)
        return [ListedAuthSession(**row) for row in rows]

    async def get_state(self, tenant_id: UUID, session_id: UUID, at: datetime) -> AuthSessionState | None:
        """Read the state of a session and of its account at this time; None for no such session."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_auth_session_state"], tenant_id=tenant_id, auth_session_id=session_id)
        if row is None:
            return None
        return AuthSessionState(
            tenant_id=tenant_id,
            auth_session_id=session_id,
            account_id=row["account_id"],
            client_id=row["client_id"] or "",
            scopes=frozenset(row["scopes"]),
            resources=tuple(row["resources"]),
            auth_time=row["auth_time"],
            is_live=row["revoke_time"] is None and at < row["expire_time"],
            account_active=row["account_active"],
            email=row["email"],
            email_verified=row["email_verified"],
            display_name=row["display_name"],
        )


async def create_auth_session(
    tx: Transaction, session: AuthSession, *, address: str = "", user_agent: str = ""
) -> None:
    """Create a session. Raises InvalidRequest for a deleted client and CredentialInvalid for a deleted account."""
    with translate_constraint_errors(_REFERENCES):
        await tx.execute(
            QUERIES["create_auth_session"],
            tenant_id=session.tenant_id,
            auth_session_id=session.auth_session_id,
            account_id=session.account_id,
            client_id=session.client_id or None,
            scopes=sorted(session.scopes),
            resources=list(session.resources),
            nonce=session.nonce,
            address=address,
            user_agent=user_agent,
            auth_time=session.auth_time,
            create_time=session.create_time,
            expire_time=session.expire_time,
        )
        if session.client_id:
            await tx.execute(QUERIES["extend_client"], client_id=session.client_id, expire_time=session.expire_time)


async def lock_session(tx: Transaction, tenant_id: UUID, session_id: UUID) -> AuthSession | None:
    """Lock a session's row until the transaction ends; None for no such session."""
    row = await tx.row(QUERIES["lock_auth_session"], tenant_id=tenant_id, auth_session_id=session_id)
    return None if row is None else _session(row)


async def get_live_refresh_token(tx: Transaction, session: AuthSession) -> RefreshToken | None:
    """Read the refresh token of a session that has no successor; None when it has none."""
    row = await tx.row(
        QUERIES["get_live_refresh_token"], tenant_id=session.tenant_id, auth_session_id=session.auth_session_id
    )
    return None if row is None else RefreshToken(**row)


async def apply_changes(tx: Transaction, session: AuthSession, changes: GrantChanges) -> None:
    """Make the changes of a step to a session that is locked, or new."""
    key = {"tenant_id": session.tenant_id, "auth_session_id": session.auth_session_id}
    if changes.code_use_time is not None:
        await tx.execute(QUERIES["use_code"], **key, use_time=changes.code_use_time)
    if changes.replaced_token_id is not None and changes.refresh_token is not None:
        await tx.execute(
            QUERIES["replace_refresh_token"],
            tenant_id=session.tenant_id,
            refresh_token_id=changes.replaced_token_id,
            replace_time=changes.refresh_token.create_time,
            replaced_by=changes.refresh_token.refresh_token_id,
        )
    if changes.refresh_token is not None:
        await tx.execute(
            QUERIES["create_refresh_token"],
            **key,
            refresh_token_id=changes.refresh_token.refresh_token_id,
            secret_hash=changes.refresh_token.secret_hash,
            create_time=changes.refresh_token.create_time,
            expire_time=changes.refresh_token.expire_time,
        )
    if changes.use_time is not None:
        await tx.execute(QUERIES["use_auth_session"], **key, use_time=changes.use_time, expire_time=changes.expire_time)
        if session.client_id and changes.expire_time is not None:
            await _extend_client(tx, session.client_id, changes.expire_time)
    if changes.revoke_time is not None:
        await tx.execute(QUERIES["revoke_auth_session"], **key, at=changes.revoke_time, reason=changes.revoke_reason)


async def _extend_client(tx: Transaction, client_id: str, expire_time: datetime) -> None:
    """Record to the day when a client's last grant expires: on Citus, a write of the row goes to every machine."""
    if await tx.value(QUERIES["is_grant_last"], client_id=client_id, before=expire_time - _CLIENT_EXPIRY_STEP):
        await tx.execute(QUERIES["extend_client"], client_id=client_id, expire_time=expire_time)


async def revoke_one_session(tx: Transaction, account_id: UUID, session_id: UUID, at: datetime, reason: str) -> None:
    """Revoke one live session of an account, in any tenant. Raises AuthSessionNotFound."""
    if await _revoke_of_account(tx, account_id, session_id, at, reason) is None:
        raise AuthSessionNotFound


async def revoke_all_sessions(
    tx: Transaction, account_id: UUID, at: datetime, reason: str, *, except_session: UUID | None = None
) -> int:
    """Revoke the account's sessions in every tenant and its known devices; return how many sessions ended."""
    await tx.execute(QUERIES["revoke_known_devices"], account_id=account_id)
    query = QUERIES["revoke_auth_sessions_of_account"]
    return await tx.execute(query, account_id=account_id, at=at, reason=reason, except_session=except_session)


async def _revoke_of_account(
    tx: Transaction, account_id: UUID, session_id: UUID, at: datetime, reason: str
) -> UUID | None:
    query = QUERIES["revoke_auth_session_of_account"]
    tenant_id: UUID | None = await tx.value(
        query, account_id=account_id, auth_session_id=session_id, at=at, reason=reason
    )
    return tenant_id


def _session(row: asyncpg.Record) -> AuthSession:
    """Read a row; the session of a deactivated account counts as revoked."""
    return AuthSession(
        tenant_id=row["tenant_id"],
        auth_session_id=row["auth_session_id"],
        account_id=row["account_id"],
        client_id=row["client_id"] or "",
        scopes=frozenset(row["scopes"]),
        resources=tuple(row["resources"]),
        nonce=row["nonce"],
        auth_time=row["auth_time"],
        create_time=row["create_time"],
        expire_time=row["expire_time"],
        revoke_time=row["revoke_time"] if row["account_active"] else row["revoke_time"] or row["create_time"],
    )


def _refresh_token_state(session: AuthSession, row: asyncpg.Record | None) -> RefreshTokenState | None:
    if row is None:
        return None
    names = ("secret_hash", "create_time", "expire_time", "replace_time", "replaced_by")
    token = RefreshToken(refresh_token_id=row["refresh_token_id"], **{name: row[name] for name in names})
    if row["next_id"] is None:
        return RefreshTokenState(session=session, token=token)
    successor = RefreshToken(refresh_token_id=row["next_id"], **{name: row[f"next_{name}"] for name in names})
    return RefreshTokenState(session=session, token=token, successor=successor)
