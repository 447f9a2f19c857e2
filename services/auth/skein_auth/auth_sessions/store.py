"""Sign-ins, codes and refresh tokens in the database: a step is decided while the sign-in's row is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.auth_sessions.model import (
    AuthorizationCode,
    AuthSession,
    AuthSessionState,
    RefreshToken,
    RefreshTokenState,
)
from skein_auth.errors import InvalidRequest
from skein_auth.queries import QUERIES
from skein_kit.database.transactions import NO_TENANT, translate_constraint_errors
from skein_kit.errors import CredentialInvalid
from skein_kit.identity.permissions import TENANT_PERMISSIONS
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from skein_auth.auth_sessions.model import GrantChanges, GrantResult
    from skein_kit.database.transactions import Database, Transaction
    from skein_kit.identity.bearer_token import BearerToken

_GONE = {"sign_ins_client_fkey": InvalidRequest, "sign_ins_account_fkey": CredentialInvalid}


class AuthSessionStore:
    """The sign-ins of accounts, and what hangs under them.

    A refusal never undoes the changes that come with it: steps are returned, and whoever called refuses afterwards.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(
        self, sign_in: AuthSession, changes: GrantChanges, *, address: str = "", user_agent: str = ""
    ) -> None:
        """Keep a new sign-in with its first tokens."""
        async with self._database.transaction(sign_in.tenant_id) as tx:
            await create_sign_in(tx, sign_in, address=address, user_agent=user_agent)
            await apply_changes(tx, sign_in, changes)

    async def approve(
        self, sign_in: AuthSession, code: AuthorizationCode, *, address: str = "", user_agent: str = ""
    ) -> None:
        """Keep a grant and the code that leads to it."""
        async with self._database.transaction(sign_in.tenant_id) as tx:
            await create_sign_in(tx, sign_in, address=address, user_agent=user_agent)
            await tx.execute(
                QUERIES["create_code"],
                tenant_id=sign_in.tenant_id,
                code_id=code.code_id,
                sign_in_id=sign_in.sign_in_id,
                secret_hash=code.secret_hash,
                redirect_uri=code.redirect_uri,
                code_challenge=code.code_challenge,
                create_time=code.create_time,
                expire_time=code.expire_time,
            )

    async def redeem(
        self, presented: BearerToken, decide: Callable[[tuple[AuthSession, AuthorizationCode] | None], GrantResult]
    ) -> tuple[GrantResult, AuthSession | None]:
        """Decide about a code and do what follows; return the sign-in that it led to as well."""
        tenant_id = presented.tenant_id
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["lock_sign_in_of_code"], tenant_id=tenant_id, token_id=presented.token_id)
            if row is None:
                return decide(None), None
            # Read after the lock was had: what another one did before is seen.
            code = await tx.row(QUERIES["get_code"], tenant_id=tenant_id, code_id=presented.token_id)
            sign_in = _sign_in(row)
            step = decide(None if code is None else (sign_in, AuthorizationCode(**code)))
            await apply_changes(tx, sign_in, step.changes)
        return step, sign_in

    async def refresh(
        self,
        presented: BearerToken,
        decide: Callable[[RefreshTokenState | None], GrantResult],
    ) -> tuple[GrantResult, AuthSession | None]:
        """Decide about a refresh token and do what follows; return its sign-in as well."""
        tenant_id, token_id = presented.tenant_id, presented.token_id
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["lock_sign_in_of_refresh_token"], tenant_id=tenant_id, token_id=token_id)
            if row is None:
                return decide(None), None
            tokens = await tx.row(QUERIES["get_refresh_token"], tenant_id=tenant_id, refresh_token_id=token_id)
            sign_in = _sign_in(row)
            step = decide(_chain(sign_in, tokens))
            await apply_changes(tx, sign_in, step.changes)
        return step, sign_in

    async def get_refresh_token_state(self, presented: BearerToken) -> RefreshTokenState | None:
        """Read a refresh token and its auth session without a row lock.

        None when there is no such token, or when its secret is wrong.
        """
        tenant_id, token_id = presented.tenant_id, presented.token_id
        async with self._database.transaction(tenant_id) as tx:
            tokens = await tx.row(QUERIES["get_refresh_token"], tenant_id=tenant_id, refresh_token_id=token_id)
            row = await tx.row(QUERIES["get_auth_session_of_refresh_token"], tenant_id=tenant_id, token_id=token_id)
        chain = None if row is None else _chain(_sign_in(row), tokens)
        return chain if chain is not None and presented.proves(chain.token.secret_hash) else None

    async def revoke(self, tenant_id: UUID, sign_in_id: UUID, at: datetime, reason: str) -> bool:
        """End a sign-in; say whether it was live."""
        async with self._database.transaction(tenant_id) as tx:
            query = QUERIES["revoke_sign_in"]
            return bool(await tx.execute(query, tenant_id=tenant_id, sign_in_id=sign_in_id, at=at, reason=reason))

    async def revoke_of_account(self, account_id: UUID, sign_in_id: UUID, at: datetime, reason: str) -> UUID | None:
        """End one live sign-in of an account; return its tenant, or None when there is no such one."""
        async with self._database.account(account_id) as tx:
            query = QUERIES["revoke_sign_in_of_account"]
            found: UUID | None = await tx.value(
                query, account_id=account_id, sign_in_id=sign_in_id, at=at, reason=reason
            )
        return found

    async def revoke_all(
        self, account_id: UUID, at: datetime, reason: str, *, but: UUID | None = None, own_only: bool = False
    ) -> int:
        """End the live sign-ins of an account in every tenant; return how many."""
        async with self._database.account(account_id) as tx:
            query = QUERIES["revoke_sign_ins_of_account"]
            return await tx.execute(query, account_id=account_id, at=at, reason=reason, but=but, own_only=own_only)

    async def list_of(self, account_id: UUID, at: datetime, *, before: UUID | None, size: int) -> list[pb.AuthSession]:
        """Read a page of an account's live sign-ins."""
        async with self._database.account(account_id) as tx:
            query = QUERIES["list_sign_ins_of_account"]
            rows = await tx.rows(query, account_id=account_id, at=at, before=before, size=size)
        return [_session(row) for row in rows]

    async def standing(self, tenant_id: UUID, sign_in_id: UUID, at: datetime) -> AuthSessionState | None:
        """Read what a sign-in is worth at this time."""
        async with self._database.transaction(tenant_id) as tx:
            row = await tx.row(QUERIES["get_standing_of_sign_in"], tenant_id=tenant_id, sign_in_id=sign_in_id)
        if row is None:
            return None
        return AuthSessionState(
            tenant_id=tenant_id,
            sign_in_id=sign_in_id,
            account_id=row["account_id"],
            client_id=row["client_id"] or "",
            scopes=frozenset(row["scopes"]),
            resources=tuple(row["resources"]),
            auth_time=row["auth_time"],
            live=row["revoke_time"] is None and at < row["expire_time"],
            account_active=row["account_active"],
            email=row["email"],
            email_verified=row["email_verified"],
            display_name=row["display_name"],
        )


async def create_sign_in(tx: Transaction, sign_in: AuthSession, *, address: str = "", user_agent: str = "") -> None:
    """Keep a new sign-in. Raises InvalidRequest or CredentialInvalid when its application or its account is gone."""
    with translate_constraint_errors(_GONE):
        await _create_sign_in(tx, sign_in, address, user_agent)


async def _create_sign_in(tx: Transaction, sign_in: AuthSession, address: str, user_agent: str) -> None:
    await tx.execute(
        QUERIES["create_sign_in"],
        tenant_id=sign_in.tenant_id,
        sign_in_id=sign_in.sign_in_id,
        account_id=sign_in.account_id,
        client_id=sign_in.client_id or None,
        scopes=sorted(sign_in.scopes),
        resources=list(sign_in.resources),
        nonce=sign_in.nonce,
        address=address,
        user_agent=user_agent,
        auth_time=sign_in.auth_time,
        create_time=sign_in.create_time,
        expire_time=sign_in.expire_time,
    )


async def lock_session(tx: Transaction, tenant_id: UUID, sign_in_id: UUID) -> AuthSession | None:
    """Take a sign-in until the transaction ends; None when there is no such one."""
    row = await tx.row(QUERIES["lock_sign_in"], tenant_id=tenant_id, sign_in_id=sign_in_id)
    return None if row is None else _sign_in(row)


async def live_refresh_token(tx: Transaction, sign_in: AuthSession) -> RefreshToken | None:
    """Read the refresh token that a sign-in can be renewed with now; None when it has none yet."""
    row = await tx.row(QUERIES["get_live_refresh_token"], tenant_id=sign_in.tenant_id, sign_in_id=sign_in.sign_in_id)
    return None if row is None else RefreshToken(**row)


async def apply_changes(tx: Transaction, sign_in: AuthSession, changes: GrantChanges) -> None:
    """Make the changes of a step to a sign-in that is held, or new."""
    names = {"tenant_id": sign_in.tenant_id, "sign_in_id": sign_in.sign_in_id}
    if changes.code_used is not None:
        await tx.execute(QUERIES["use_code"], **names, use_time=changes.code_used)
    if changes.replaced is not None and changes.refresh_token is not None:
        await tx.execute(
            QUERIES["replace_refresh_token"],
            tenant_id=sign_in.tenant_id,
            refresh_token_id=changes.replaced,
            replace_time=changes.refresh_token.create_time,
            replaced_by=changes.refresh_token.refresh_token_id,
        )
    if changes.refresh_token is not None:
        await tx.execute(
            QUERIES["create_refresh_token"],
            **names,
            refresh_token_id=changes.refresh_token.refresh_token_id,
            secret_hash=changes.refresh_token.secret_hash,
            create_time=changes.refresh_token.create_time,
            expire_time=changes.refresh_token.expire_time,
        )
    if changes.used is not None:
        await tx.execute(QUERIES["use_sign_in"], **names, use_time=changes.used, expire_time=changes.expire_time)
    if changes.revoked is not None:
        await tx.execute(QUERIES["revoke_sign_in"], **names, at=changes.revoked, reason=changes.revoke_reason)


def _sign_in(row: asyncpg.Record) -> AuthSession:
    """Read a row; the sign-in of a deactivated account counts as revoked."""
    return AuthSession(
        tenant_id=row["tenant_id"],
        sign_in_id=row["sign_in_id"],
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


def _chain(sign_in: AuthSession, row: asyncpg.Record | None) -> RefreshTokenState | None:
    if row is None:
        return None
    names = ("secret_hash", "create_time", "expire_time", "replace_time", "replaced_by")
    token = RefreshToken(refresh_token_id=row["refresh_token_id"], **{name: row[name] for name in names})
    if row["next_id"] is None:
        return RefreshTokenState(sign_in=sign_in, token=token)
    following = RefreshToken(refresh_token_id=row["next_id"], **{name: row[f"next_{name}"] for name in names})
    return RefreshTokenState(sign_in=sign_in, token=token, successor=following)


def _session(row: asyncpg.Record) -> pb.AuthSession:
    tenant_id = row["tenant_id"]
    return pb.AuthSession(
        auth_session_id=str(row["sign_in_id"]),
        client_id=row["client_id"] or "",
        client_name=row["client_name"] or "",
        tenant_id="" if tenant_id == NO_TENANT else str(tenant_id),
        permissions=[scope for scope in row["scopes"] if scope in TENANT_PERMISSIONS],
        address=row["address"],
        user_agent=row["user_agent"],
        create_time=well_known_types.to_timestamp(row["create_time"]),
        use_time=well_known_types.to_timestamp(row["use_time"]),
        expire_time=well_known_types.to_timestamp(row["expire_time"]),
    )
