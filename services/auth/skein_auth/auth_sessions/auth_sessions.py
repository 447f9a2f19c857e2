"""Sign-ins: a person's own, and what applications were let into; how they begin, are renewed and end."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import (
    AuthSession,
    GrantError,
    Lifetimes,
    RefreshRequest,
    RefreshTokenDerivation,
    StepContext,
)
from skein_auth.encryption import derive_keys
from skein_auth.errors import SignInTooOld
from skein_auth.signing.access_tokens import OWN_CLIENT, TokenSubject
from skein_kit.calls.call import current_call
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid
from skein_kit.identity.bearer_token import SECRET_BYTES, BearerToken
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.ids import new_id, now
from skein_kit.rpc import well_known_types

if TYPE_CHECKING:
    from uuid import UUID

    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.model import AuthSessionState, IssuedTokens, RandomSource
    from skein_auth.auth_sessions.store import AuthSessionStore
    from skein_auth.settings import AuthSettings, SystemKeys
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_kit.identity.identity_token import Caller

_SUCCESSORS = b"skein auth refresh tokens v1"
# Whoever found a token does not take the account over with it: for that the person proved so lately who they are.
RECENT = timedelta(minutes=15)


class SystemRandomSource:
    """The randomness of the operating system."""

    def id(self, at: datetime) -> UUID:
        return new_id(at)

    def secret(self) -> bytes:
        return secrets.token_bytes(SECRET_BYTES)


def lifetimes_from(settings: AuthSettings) -> Lifetimes:
    """Return how long things live here."""
    return Lifetimes(
        code=timedelta(seconds=settings.code_seconds),
        access=timedelta(seconds=settings.access_token_seconds),
        refresh=timedelta(seconds=settings.refresh_token_seconds),
        sign_in=timedelta(seconds=settings.sign_in_seconds),
        grace=timedelta(seconds=settings.refresh_grace_seconds),
    )


def refresh_token_derivation_from(system_keys: SystemKeys) -> RefreshTokenDerivation:
    """Return how refresh tokens follow from one another here."""
    return RefreshTokenDerivation(keys=tuple(derive_keys(system_keys, _SUCCESSORS)))


class AuthSessions:
    """The sign-ins of all accounts."""

    def __init__(
        self,
        store: AuthSessionStore,
        tokens: AccessTokens,
        audit: AuditRecorder,
        terms: Lifetimes,
        successors: RefreshTokenDerivation,
        *,
        chance: RandomSource | None = None,
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._audit = audit
        self._terms = terms
        self._successors = successors
        self.chance: RandomSource = chance or SystemRandomSource()

    def now(self, at: datetime) -> StepContext:
        """Return what a step of a grant depends on at this time."""
        return StepContext(at=at, terms=self._terms, chance=self.chance, successors=self._successors)

    async def begin_own(self, account_id: UUID, *, at: datetime) -> pb.SignInTokens:
        """Begin a sign-in of the account's own, who proved at this time who they are."""
        sign_in = AuthSession(
            tenant_id=NO_TENANT,
            sign_in_id=self.chance.id(at),
            account_id=account_id,
            scopes=frozenset({ACCOUNT}),
            resources=(self._tokens.issuer(),),
            auth_time=at,
            create_time=at,
            expire_time=at,
        )
        step = grants.begin_session(sign_in, self.now(at))
        call = current_call()
        await self._store.begin(
            sign_in,
            step.changes,
            address="" if call is None else call.client_address,
            user_agent="" if call is None else call.user_agent,
        )
        return await self._own_tokens(_issued(step.issue), at)

    async def refresh_own(self, refresh_token: str) -> pb.SignInTokens:
        """Replace a refresh token of an account's own sign-in, as RefreshSession promises."""
        presented = BearerToken.read(grants.REFRESH_PREFIX, refresh_token)
        if presented is None or presented.tenant_id != NO_TENANT:
            raise CredentialInvalid
        at = now()
        step, sign_in = await self._store.refresh(
            presented,
            lambda chain: grants.refresh(chain, presented, RefreshRequest(), self.now(at)),
        )
        if step.fault is GrantError.REUSED and sign_in is not None:
            await self._audit.record(
                "refresh_reused", outcome="refused", reason=CredentialInvalid.reason, account_id=sign_in.account_id
            )
        if step.fault is not None:
            raise CredentialExpired if step.fault is GrantError.EXPIRED else CredentialInvalid
        return await self._own_tokens(_issued(step.issue), at)

    async def revoke(self, tenant_id: UUID, sign_in_id: UUID, reason: str) -> bool:
        """End a sign-in with everything that it gave; say whether it was live."""
        return await self._store.revoke(tenant_id, sign_in_id, now(), reason)

    async def revoke_one(self, account_id: UUID, sign_in_id: UUID, reason: str) -> UUID | None:
        """End one live sign-in of an account, in whichever tenant; return that, or None when there is no such one."""
        return await self._store.revoke_of_account(account_id, sign_in_id, now(), reason)

    async def revoke_all(
        self, account_id: UUID, *, but: UUID | None = None, own_only: bool = False, reason: str = "revoked"
    ) -> int:
        """End the account's sign-ins, `but` one; `own_only` leaves applications what they have. Return how many."""
        return await self._store.revoke_all(account_id, now(), reason, but=but, own_only=own_only)

    async def list_of(self, account_id: UUID, before: UUID | None, size: int) -> list[pb.AuthSession]:
        """Read a page of the account's live sign-ins, newest first; `current_call` is left for the caller to say."""
        return await self._store.list_of(account_id, now(), before=before, size=size)

    async def standing(self, tenant_id: UUID, sign_in_id: UUID) -> AuthSessionState | None:
        """Say what a sign-in is worth now; None when there is no such one."""
        return await self._store.standing(tenant_id, sign_in_id, now())

    async def must_be_recent(self, who: Caller) -> None:
        """Refuse with SignInTooOld a sign-in that began a while ago, however often it was renewed."""
        standing = None if who.sign_in_id is None else await self.standing(NO_TENANT, who.sign_in_id)
        if standing is None or now() >= standing.auth_time + RECENT:
            raise SignInTooOld

    async def _own_tokens(self, issue: IssuedTokens, at: datetime) -> pb.SignInTokens:
        sign_in = issue.sign_in
        bearer = TokenSubject(
            subject=sign_in.account_id,
            client_id=OWN_CLIENT,
            sign_in_id=sign_in.sign_in_id,
            auth_time=sign_in.auth_time,
        )
        text, ends = await self._tokens.sign(
            bearer, scopes=issue.scopes, resources=(self._tokens.issuer(),), at=at, until=issue.expire_time
        )
        return pb.SignInTokens(
            access_token=text,
            access_expire_time=well_known_types.to_timestamp(ends),
            refresh_token="" if issue.refresh is None else issue.refresh.text(),
            refresh_expire_time=well_known_types.to_timestamp(issue.refresh_expire_time),
            auth_session_id=str(sign_in.sign_in_id),
        )


def _issued(issue: IssuedTokens | None) -> IssuedTokens:
    if issue is None:
        message = "a step without a fault gives something out"
        raise LookupError(message)
    return issue
