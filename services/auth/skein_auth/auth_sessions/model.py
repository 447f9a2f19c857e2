"""The grants of OAuth 2.1 as a pure state machine. No SQL, no gRPC, no HTTP: clock and randomness are passed in.

A step takes the stored state, the presented token and the time. It returns changes, of which the store makes all or
none, and tokens or an error. An error may come with a change, because reuse revokes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol
from uuid import UUID

from skein_auth.audit.model import AuditFields
from skein_kit.identity.bearer_token import BearerToken

CODE_PREFIX = "skein_code_"
REFRESH_PREFIX = "skein_rt_"
# The forms of a verifier and its challenge (RFC 7636).
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class GrantError(Enum):
    """The error of a step."""

    # Unknown, damaged, another client's, or revoked; the response does not tell which.
    INVALID = "invalid"
    EXPIRED = "expired"
    # A second use, which revoked the session.
    REUSED = "reused"
    SCOPE = "scope"
    TARGET = "target"
    PENDING = "pending"
    SLOW_DOWN = "slow_down"
    DENIED = "denied"


class RandomSource(Protocol):
    """A source of randomness."""

    def new_id(self, at: datetime) -> UUID:
        """Return a new UUIDv7."""

    def new_secret(self) -> bytes:
        """Return 32 random bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifetimes:
    """How long codes, tokens and sessions live."""

    code: timedelta = timedelta(seconds=60)
    access: timedelta = timedelta(hours=1)
    # Of an unused refresh token.
    refresh: timedelta = timedelta(days=30)
    # Of an auth session, however much it is used.
    session: timedelta = timedelta(days=90)
    # In which a repeated refresh gets the same successor.
    grace: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthSession:
    """An account's own session or, with a client, its grant to the client."""

    tenant_id: UUID
    auth_session_id: UUID
    account_id: UUID
    # Empty: the account's own.
    client_id: str = ""
    scopes: frozenset[str]
    resources: tuple[str, ...]
    nonce: str = ""
    auth_time: datetime
    create_time: datetime
    # No token of it lives longer. Before the first token: the expiry of its code.
    expire_time: datetime
    revoke_time: datetime | None = None

    def is_live(self, at: datetime) -> bool:
        return self.revoke_time is None and at < self.expire_time

    def audit_fields(self) -> AuditFields:
        """Return the fields of an audit event about the session."""
        return {
            "client_id": self.client_id,
            "account_id": self.account_id,
            "tenant_id": self.tenant_id,
            "target": f"sign_in:{self.auth_session_id}",
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthSessionState:
    """The current state of an auth session and its account."""

    tenant_id: UUID
    auth_session_id: UUID
    account_id: UUID
    # Empty: the account's own.
    client_id: str
    scopes: frozenset[str]
    resources: tuple[str, ...]
    auth_time: datetime
    # Neither revoked nor expired.
    is_live: bool
    account_active: bool
    # Empty for an account without an address. Only a verified one identifies a person.
    email: str
    email_verified: bool
    display_name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedAuthSession:
    """A live auth session in its account's list."""

    # NO_TENANT for a session without a tenant.
    tenant_id: UUID
    auth_session_id: UUID
    # None: the account's own.
    client_id: str | None
    client_name: str | None
    scopes: Sequence[str]
    address: str
    user_agent: str
    create_time: datetime
    use_time: datetime
    expire_time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationCode:
    """An authorization code as it is stored."""

    code_id: UUID
    secret_hash: bytes = field(repr=False)
    redirect_uri: str
    code_challenge: str
    create_time: datetime
    expire_time: datetime
    use_time: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshToken:
    """A refresh token as it is stored."""

    refresh_token_id: UUID
    secret_hash: bytes = field(repr=False)
    create_time: datetime
    expire_time: datetime
    replace_time: datetime | None = None
    replaced_by: UUID | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantChanges:
    """Changes of a session, in the order in which the store makes them."""

    # When the code was used.
    code_use_time: datetime | None = None
    # The id of the refresh token that `refresh_token` replaces.
    replaced_token_id: UUID | None = None
    refresh_token: RefreshToken | None = None
    # When the session was used; it lives until `expire_time`, unless that is None.
    use_time: datetime | None = None
    expire_time: datetime | None = None
    revoke_time: datetime | None = None
    revoke_reason: str = ""


NO_CHANGES = GrantChanges()


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedTokens:
    """Tokens to be issued."""

    session: AuthSession
    # Of the access token.
    scopes: frozenset[str]
    resources: tuple[str, ...]
    # None for a grant without one.
    refresh: BearerToken | None
    refresh_expire_time: datetime | None
    # An access token ends no later than this.
    expire_time: datetime
    # The first tokens of a session come with an ID token.
    is_first: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionTokens:
    """Signed tokens of an account's own session."""

    auth_session_id: UUID
    access_token: str = field(repr=False)
    access_expire_time: datetime
    refresh_token: str = field(repr=False)
    refresh_expire_time: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantResult:
    """The result of a step: changes, and either tokens or an error."""

    changes: GrantChanges = NO_CHANGES
    tokens: IssuedTokens | None = None
    error: GrantError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshTokenDerivation:
    """Derives a refresh token from the token before it, so that a repeated refresh gets the same one.

    The token before the first one of a device is its device code.
    """

    # The current key first, then earlier ones.
    keys: tuple[bytes, ...] = field(repr=False)

    def derive(self, previous_token: BearerToken, tenant_id: UUID, token_id: UUID) -> BearerToken:
        return self._derive(self.keys[0], previous_token, tenant_id, token_id)

    def rederive(self, previous_token: BearerToken, tenant_id: UUID, successor: RefreshToken) -> BearerToken | None:
        """Return the successor that was issued; None when another token precedes it, or its key is gone."""
        tokens = (self._derive(key, previous_token, tenant_id, successor.refresh_token_id) for key in self.keys)
        return next((token for token in tokens if token.matches_hash(successor.secret_hash)), None)

    @staticmethod
    def _derive(key: bytes, previous_token: BearerToken, tenant_id: UUID, token_id: UUID) -> BearerToken:
        secret = hmac.digest(key, previous_token.secret + token_id.bytes, "sha256")
        return BearerToken.generate(REFRESH_PREFIX, tenant_id, token_id, secret)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepContext:
    """The inputs of a step besides state and request."""

    at: datetime
    lifetimes: Lifetimes
    random: RandomSource
    derivation: RefreshTokenDerivation


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeRequest:
    """The parameters of a token request with a code, from an authenticated client."""

    client_id: str
    redirect_uri: str
    verifier: str = field(repr=False)
    # Empty: all that were granted.
    resources: tuple[str, ...] = ()
    # The client gets refresh tokens.
    refreshes: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshRequest:
    """The parameters of a refresh, from an authenticated client; an account's own session has no client."""

    client_id: str = ""
    # Of the access token; empty: all that were granted.
    scopes: frozenset[str] = frozenset()
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshTokenState:
    """A stored refresh token with its session and its successor."""

    session: AuthSession
    token: RefreshToken
    successor: RefreshToken | None = None


def is_challenge(text: str) -> bool:
    """Return whether a text has the form of an S256 challenge: 32 bytes in base64url."""
    return _CHALLENGE.fullmatch(text) is not None


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def verify_code_challenge(verifier: str, challenge: str) -> bool:
    """Return whether the challenge is that of the verifier."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    return hmac.compare_digest(challenge_of(verifier).encode(), challenge.encode())


def begin_session(session: AuthSession, context: StepContext) -> GrantResult:
    """Issue the first tokens of an account's own new session."""
    return issue_first_tokens(session, context, session.resources, _random_refresh_token(session, context))


def approve(
    session: AuthSession, redirect_uri: str, code_challenge: str, context: StepContext
) -> tuple[AuthSession, AuthorizationCode, BearerToken]:
    """Make the session of an approved grant, and its code; the session lives as long as the code until it is used."""
    token = BearerToken.generate(
        CODE_PREFIX, session.tenant_id, context.random.new_id(context.at), context.random.new_secret()
    )
    expire_time = context.at + context.lifetimes.code
    code = AuthorizationCode(
        code_id=token.token_id,
        secret_hash=token.secret_hash(),
        redirect_uri=redirect_uri,
        code_challenge=code_challenge,
        create_time=context.at,
        expire_time=expire_time,
    )
    return replace(session, expire_time=expire_time), code, token


def redeem(
    state: tuple[AuthSession, AuthorizationCode] | None,
    presented_token: BearerToken,
    request: CodeRequest,
    context: StepContext,
) -> GrantResult:
    """Redeem a code. A second, otherwise valid use revokes the session."""
    if state is None:
        return GrantResult(error=GrantError.INVALID)
    session, code = state
    if not (
        _belongs_to_client(session, presented_token, code.secret_hash, request.client_id)
        and _matches_request(code, request)
    ):
        return GrantResult(error=GrantError.INVALID)
    if code.use_time is not None:
        return revoke_for_reuse(session, context.at, "code_reused")
    if session.revoke_time is not None or context.at >= code.expire_time:
        return GrantResult(error=GrantError.INVALID)
    if not set(request.resources) <= set(session.resources):
        return GrantResult(error=GrantError.TARGET)
    token = _random_refresh_token(session, context) if request.refreshes else None
    step = issue_first_tokens(session, context, request.resources or session.resources, token)
    return replace(step, changes=replace(step.changes, code_use_time=context.at))


def refresh(
    state: RefreshTokenState | None, presented_token: BearerToken, request: RefreshRequest, context: StepContext
) -> GrantResult:
    """Replace a refresh token. The access token may have fewer scopes than were granted, never more.

    Within the grace, a replaced token gets the same successor again, unless that was used. Any other use of a replaced
    token revokes the session, because it was stolen.
    """
    error = _error_of(state, presented_token, request.client_id, context.at)
    if state is None or error is not None:
        return GrantResult(error=error or GrantError.INVALID)
    session, token, successor = state.session, state.token, state.successor
    new_token: BearerToken | None = None
    if token.replace_time is not None:
        in_grace = context.at < token.replace_time + context.lifetimes.grace
        if not in_grace or successor is None or successor.replace_time is not None:
            return revoke_for_reuse(session, context.at, "refresh_token_reused")
        new_token = context.derivation.rederive(presented_token, session.tenant_id, successor)
        if new_token is None:
            return GrantResult(error=GrantError.INVALID)
    if not request.scopes <= session.scopes:
        return GrantResult(error=GrantError.SCOPE)
    if not set(request.resources) <= set(session.resources):
        return GrantResult(error=GrantError.TARGET)
    changes = NO_CHANGES
    if new_token is None or successor is None:
        new_token = context.derivation.derive(presented_token, session.tenant_id, context.random.new_id(context.at))
        successor = _to_refresh_token(
            new_token, context.at, min(context.at + context.lifetimes.refresh, session.expire_time)
        )
        changes = GrantChanges(replaced_token_id=token.refresh_token_id, refresh_token=successor, use_time=context.at)
    tokens = IssuedTokens(
        session=session,
        scopes=request.scopes or session.scopes,
        resources=request.resources or session.resources,
        refresh=new_token,
        refresh_expire_time=successor.expire_time,
        expire_time=min(context.at + context.lifetimes.access, session.expire_time),
    )
    return GrantResult(changes=changes, tokens=tokens)


def revoke_for_reuse(session: AuthSession, at: datetime, reason: str) -> GrantResult:
    """Revoke a session whose single-use code or token was presented again."""
    changes = NO_CHANGES if session.revoke_time is not None else GrantChanges(revoke_time=at, revoke_reason=reason)
    return GrantResult(changes=changes, error=GrantError.REUSED)


def _belongs_to_client(session: AuthSession, presented_token: BearerToken, secret_hash: bytes, client_id: str) -> bool:
    return presented_token.matches_hash(secret_hash) and session.client_id == client_id


def _matches_request(code: AuthorizationCode, request: CodeRequest) -> bool:
    return (
        bool(request.client_id)
        and code.redirect_uri == request.redirect_uri
        and verify_code_challenge(request.verifier, code.code_challenge)
    )


def _error_of(
    state: RefreshTokenState | None, presented_token: BearerToken, client_id: str, at: datetime
) -> GrantError | None:
    """Return the error of a refresh token, replaced or not; None for a valid one."""
    if state is None or not _belongs_to_client(state.session, presented_token, state.token.secret_hash, client_id):
        return GrantError.INVALID
    if state.session.revoke_time is not None:
        return GrantError.INVALID
    is_token_expired = state.token.replace_time is None and at >= state.token.expire_time
    return GrantError.EXPIRED if is_token_expired or at >= state.session.expire_time else None


def issue_first_tokens(
    session: AuthSession, context: StepContext, resources: tuple[str, ...], token: BearerToken | None
) -> GrantResult:
    """Issue the first tokens of a session, which from now on lives as long as they can be refreshed.

    `token` is its first refresh token; None for a client without refresh tokens.
    """
    at, lifetimes = context.at, context.lifetimes
    expire_time = at + (lifetimes.access if token is None else lifetimes.session)
    refresh_token = None if token is None else _to_refresh_token(token, at, min(at + lifetimes.refresh, expire_time))
    tokens = IssuedTokens(
        session=replace(session, expire_time=expire_time),
        scopes=session.scopes,
        resources=resources,
        refresh=token,
        refresh_expire_time=None if refresh_token is None else refresh_token.expire_time,
        expire_time=min(at + lifetimes.access, expire_time),
        is_first=True,
    )
    return GrantResult(
        changes=GrantChanges(refresh_token=refresh_token, use_time=at, expire_time=expire_time),
        tokens=tokens,
    )


def _random_refresh_token(session: AuthSession, context: StepContext) -> BearerToken:
    return BearerToken.generate(
        REFRESH_PREFIX, session.tenant_id, context.random.new_id(context.at), context.random.new_secret()
    )


def _to_refresh_token(token: BearerToken, at: datetime, expire_time: datetime) -> RefreshToken:
    return RefreshToken(
        refresh_token_id=token.token_id, secret_hash=token.secret_hash(), create_time=at, expire_time=expire_time
    )
