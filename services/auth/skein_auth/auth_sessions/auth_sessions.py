"""Auth sessions of accounts: their begin, their refresh, and the check of a recent login."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from uuid import UUID

from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import (
    AuthSession,
    AuthSessionState,
    GrantError,
    IssuedTokens,
    Lifetimes,
    RefreshRequest,
    RefreshTokenDerivation,
    SessionTokens,
    StepContext,
)
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.encryption import derive_keys
from skein_auth.errors import SignInTooOld
from skein_auth.settings import AuthSettings, SystemKeys
from skein_auth.signing.access_tokens import OWN_CLIENT, AccessTokens, TokenSubject
from skein_kit.calls.call import client_address, user_agent
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import CredentialExpired, CredentialInvalid
from skein_kit.identity.bearer_token import SECRET_BYTES, BearerToken
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ACCOUNT
from skein_kit.ids import new_id, now

_REFRESH_TOKENS = b"skein auth refresh tokens v1"
# A thief of a token cannot take the account over with it: that needs a login within this time.
RECENT_LOGIN = timedelta(minutes=15)
# The longest that RFC 6749, 4.1.2 recommends for a code.
CODE_LIFETIME = timedelta(minutes=10)
# How long a copied access token works at most; clients refresh in the background, so a longer life gains nothing.
ACCESS_TOKEN_LIFETIME = timedelta(hours=1)
# A person who comes back within a month stays logged in; SKEIN_SIGN_IN_SECONDS ends the session in any case.
_REFRESH_TOKEN_LIFETIME = timedelta(days=30)
# A client that lost the response repeats the refresh, or the request with a device code, within seconds.
_REFRESH_GRACE = timedelta(seconds=10)


class SystemRandomSource:
    """The randomness of the operating system."""

    def new_id(self, at: datetime) -> UUID:
        return new_id(at)

    def new_secret(self) -> bytes:
        return secrets.token_bytes(SECRET_BYTES)


def lifetimes_from(settings: AuthSettings) -> Lifetimes:
    """Return the lifetimes of codes, tokens and auth sessions."""
    return Lifetimes(
        code=CODE_LIFETIME,
        access=ACCESS_TOKEN_LIFETIME,
        refresh=_REFRESH_TOKEN_LIFETIME,
        session=timedelta(seconds=settings.sign_in_seconds),
        grace=_REFRESH_GRACE,
    )


def refresh_token_derivation_from(system_keys: SystemKeys) -> RefreshTokenDerivation:
    """Return the derivation of refresh tokens under the system keys."""
    return RefreshTokenDerivation(keys=tuple(derive_keys(system_keys, _REFRESH_TOKENS)))


class AuthSessions:
    """The auth sessions of all accounts."""

    def __init__(
        self,
        store: AuthSessionStore,
        tokens: AccessTokens,
        audit: AuditRecorder,
        lifetimes: Lifetimes,
        derivation: RefreshTokenDerivation,
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._audit = audit
        self._lifetimes = lifetimes
        self._derivation = derivation
        self.random = SystemRandomSource()

    def step_context(self, at: datetime) -> StepContext:
        """Return the inputs of a grant's step at this time."""
        return StepContext(at=at, lifetimes=self._lifetimes, random=self.random, derivation=self._derivation)

    async def begin(self, account_id: UUID, *, at: datetime) -> SessionTokens:
        """Begin an account's own session after a login at this time; return its first tokens."""
        session = AuthSession(
            tenant_id=NO_TENANT,
            auth_session_id=self.random.new_id(at),
            account_id=account_id,
            scopes=frozenset({ACCOUNT}),
            resources=(self._tokens.issuer(),),
            auth_time=at,
            create_time=at,
            expire_time=at,
        )
        result = grants.begin_session(session, self.step_context(at))
        await self._store.create(session, result.changes, address=client_address(), user_agent=user_agent())
        return await self._sign_own_tokens(result.tokens, at)

    async def refresh(self, refresh_token: str) -> SessionTokens:
        """Replace a refresh token of an account's own session. Raises CredentialInvalid and CredentialExpired."""
        presented_token = BearerToken.decode(grants.REFRESH_PREFIX, refresh_token)
        if presented_token is None or presented_token.tenant_id != NO_TENANT:
            raise CredentialInvalid
        at = now()
        result, session = await self._store.refresh(presented_token, RefreshRequest(), self.step_context(at))
        if result.error is GrantError.REUSED and session is not None:
            await self._audit.record(
                "refresh_reused", outcome="refused", reason=CredentialInvalid.reason, account_id=session.account_id
            )
        if result.error is not None:
            raise CredentialExpired if result.error is GrantError.EXPIRED else CredentialInvalid
        return await self._sign_own_tokens(result.tokens, at)

    async def revoke_one(self, account_id: UUID, session_id: UUID, reason: str) -> None:
        """Revoke one session of an account, in any tenant, if it is live."""
        await self._store.revoke_of_account(account_id, session_id, now(), reason)

    async def get_state(self, tenant_id: UUID, session_id: UUID) -> AuthSessionState | None:
        """Read the current state of a session; None for no such session."""
        return await self._store.get_state(tenant_id, session_id, now())

    async def require_recent_login(self, caller: Caller) -> None:
        """Refuse with SignInTooOld a session whose login is older than RECENT_LOGIN. A refresh is no login."""
        state = None if caller.auth_session_id is None else await self.get_state(NO_TENANT, caller.auth_session_id)
        if state is None or now() >= state.auth_time + RECENT_LOGIN:
            raise SignInTooOld

    async def _sign_own_tokens(self, tokens: IssuedTokens | None, at: datetime) -> SessionTokens:
        if tokens is None:
            message = "a step without an error issues tokens"
            raise LookupError(message)
        session = tokens.session
        subject = TokenSubject(
            subject=session.account_id,
            client_id=OWN_CLIENT,
            auth_session_id=session.auth_session_id,
            auth_time=session.auth_time,
        )
        access_token, access_expire_time = await self._tokens.sign(
            subject,
            scopes=tokens.scopes,
            resources=(self._tokens.issuer(),),
            at=at,
            until=tokens.expire_time,
        )
        return SessionTokens(
            auth_session_id=session.auth_session_id,
            access_token=access_token,
            access_expire_time=access_expire_time,
            refresh_token="" if tokens.refresh is None else tokens.refresh.encode(),
            refresh_expire_time=tokens.refresh_expire_time,
        )
