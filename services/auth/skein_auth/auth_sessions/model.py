"""The grants of OAuth 2.1 as a pure state machine. No SQL, no gRPC, no HTTP: clock and randomness are passed in.

A step takes what is stored, what somebody presents and the time. It returns the changes that the store has to make, all
or none of them, and what comes of it: a refusal may well come with a change, because reuse revokes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from skein_kit.identity.bearer_token import BearerToken

if TYPE_CHECKING:
    from uuid import UUID

CODE_PREFIX = "skein_code_"
REFRESH_PREFIX = "skein_rt_"
# RFC 7636: what a verifier and its challenge look like.
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class GrantError(Enum):
    """Why a step was refused."""

    # Unknown, damaged, another client's, revoked: nobody is told which.
    INVALID = "invalid"
    EXPIRED = "expired"
    # A second use, which revoked the sign-in.
    REUSED = "reused"
    SCOPE = "scope"
    TARGET = "target"
    PENDING = "pending"
    SLOW_DOWN = "slow_down"
    DENIED = "denied"


class RandomSource(Protocol):
    """Where randomness comes from."""

    def id(self, at: datetime) -> UUID:
        """Return a new UUIDv7."""

    def secret(self) -> bytes:
        """Return 32 random bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lifetimes:
    """How long things live."""

    code: timedelta = timedelta(seconds=60)
    access: timedelta = timedelta(hours=1)
    # Without use.
    refresh: timedelta = timedelta(days=30)
    # However much it is used.
    sign_in: timedelta = timedelta(days=90)
    # In which the immediate predecessor gets the same successor again.
    grace: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthSession:
    """A sign-in of an account or, with a client, the grant that it gave to an application."""

    tenant_id: UUID
    sign_in_id: UUID
    account_id: UUID
    # Empty: the account's own.
    client_id: str = ""
    scopes: frozenset[str]
    resources: tuple[str, ...]
    nonce: str = ""
    auth_time: datetime
    create_time: datetime
    # No token of it lives longer. Until it is redeemed, the end of what leads to it.
    expire_time: datetime
    revoke_time: datetime | None = None

    def lives(self, at: datetime) -> bool:
        return self.revoke_time is None and at < self.expire_time


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthSessionState:
    """What an auth session is worth now."""

    tenant_id: UUID
    sign_in_id: UUID
    account_id: UUID
    # Empty: the account's own.
    client_id: str
    scopes: frozenset[str]
    resources: tuple[str, ...]
    auth_time: datetime
    # Neither revoked nor expired.
    live: bool
    account_active: bool
    # Empty for an account without an address. Only a verified one says who a person is.
    email: str
    email_verified: bool
    display_name: str


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
    """What the store has to do, in this order."""

    # The code is spent.
    code_used: datetime | None = None
    # The refresh token with this id gave way to `refresh_token`.
    replaced: UUID | None = None
    refresh_token: RefreshToken | None = None
    # The sign-in was used, and lives until `expire_time`.
    used: datetime | None = None
    expire_time: datetime | None = None
    revoked: datetime | None = None
    revoke_reason: str = ""


NO_CHANGES = GrantChanges()


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedTokens:
    """What is given out."""

    sign_in: AuthSession
    # Of the access token.
    scopes: frozenset[str]
    resources: tuple[str, ...]
    # None for a grant without one.
    refresh: BearerToken | None
    refresh_expire_time: datetime | None
    # An access token ends no later than this.
    expire_time: datetime
    # The first tokens of a sign-in come with an ID token.
    is_first: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GrantResult:
    """What a step comes to: changes, and either something to give out or a fault."""

    changes: GrantChanges = NO_CHANGES
    issue: IssuedTokens | None = None
    fault: GrantError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshTokenDerivation:
    """How a refresh token follows from the token before it: with that and our key the same one is found again.

    The token before the first one of a device is its device code.
    """

    # The current key first; the others were it before.
    keys: tuple[bytes, ...] = field(repr=False)

    def next(self, before: BearerToken, tenant_id: UUID, token_id: UUID) -> BearerToken:
        return self._next(self.keys[0], before, tenant_id, token_id)

    def again(self, before: BearerToken, tenant_id: UUID, successor: RefreshToken) -> BearerToken | None:
        """Return the successor that was given out; None when it follows from another token, or its key is gone."""
        found = (self._next(key, before, tenant_id, successor.refresh_token_id) for key in self.keys)
        return next((token for token in found if token.proves(successor.secret_hash)), None)

    @staticmethod
    def _next(key: bytes, before: BearerToken, tenant_id: UUID, token_id: UUID) -> BearerToken:
        secret = hmac.digest(key, before.secret + token_id.bytes, "sha256")
        return BearerToken.made(REFRESH_PREFIX, tenant_id, token_id, secret)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepContext:
    """The time, how long things live from it on, and the randomness of the moment."""

    at: datetime
    terms: Lifetimes
    chance: RandomSource
    successors: RefreshTokenDerivation


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeRequest:
    """What comes with a code, from a client that proved itself."""

    client_id: str
    redirect_uri: str
    verifier: str = field(repr=False)
    # Empty: all that were granted.
    resources: tuple[str, ...] = ()
    # The client takes refresh tokens.
    refreshes: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshRequest:
    """What comes with a refresh token, from a client that proved itself; an account's own sign-in has none."""

    client_id: str = ""
    # Of the access token; empty: all that were granted.
    scopes: frozenset[str] = frozenset()
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RefreshTokenState:
    """A refresh token as it is stored, with its sign-in and the token that took its place."""

    sign_in: AuthSession
    token: RefreshToken
    successor: RefreshToken | None = None


def is_challenge(text: str) -> bool:
    """Say whether this can be an S256 challenge: 32 bytes in base64url."""
    return _CHALLENGE.fullmatch(text) is not None


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def verify_code_challenge(verifier: str, challenge: str) -> bool:
    """Say whether the verifier is the one that the challenge was made of."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    return hmac.compare_digest(challenge_of(verifier).encode(), challenge.encode())


def begin_session(sign_in: AuthSession, now: StepContext) -> GrantResult:
    """Begin a sign-in of an account's own, which is new."""
    return issue_first_tokens(sign_in, now, sign_in.resources, _random_refresh_token(sign_in, now))


def approve(
    sign_in: AuthSession, redirect_uri: str, code_challenge: str, now: StepContext
) -> tuple[AuthSession, AuthorizationCode, BearerToken]:
    """Make the sign-in that a person agreed to, and the code; until that is redeemed, the sign-in lives as long."""
    token = BearerToken.made(CODE_PREFIX, sign_in.tenant_id, now.chance.id(now.at), now.chance.secret())
    ends = now.at + now.terms.code
    code = AuthorizationCode(
        code_id=token.token_id,
        secret_hash=token.secret_hash(),
        redirect_uri=redirect_uri,
        code_challenge=code_challenge,
        create_time=now.at,
        expire_time=ends,
    )
    return with_expire_time(sign_in, ends), code, token


def redeem(
    state: tuple[AuthSession, AuthorizationCode] | None, presented: BearerToken, with_: CodeRequest, now: StepContext
) -> GrantResult:
    """Redeem a code. A second time by whoever could the first time revokes what the first one gave."""
    if state is None:
        return GrantResult(fault=GrantError.INVALID)
    sign_in, code = state
    if not (_is_clients(sign_in, presented, code.secret_hash, with_.client_id) and _fits(code, with_)):
        return GrantResult(fault=GrantError.INVALID)
    if code.use_time is not None:
        return revoke_for_reuse(sign_in, now.at, "code_reused")
    if sign_in.revoke_time is not None or now.at >= code.expire_time:
        return GrantResult(fault=GrantError.INVALID)
    if not set(with_.resources) <= set(sign_in.resources):
        return GrantResult(fault=GrantError.TARGET)
    token = _random_refresh_token(sign_in, now) if with_.refreshes else None
    step = issue_first_tokens(sign_in, now, with_.resources or sign_in.resources, token)
    return replace(step, changes=replace(step.changes, code_used=now.at))


def refresh(
    chain: RefreshTokenState | None, presented: BearerToken, with_: RefreshRequest, now: StepContext
) -> GrantResult:
    """Replace a refresh token; the access token may have less than was granted, never more.

    The one just replaced gets the same successor again for a moment, unless that was used itself; any other use of an
    old one revokes the sign-in, because somebody else has it.
    """
    fault = _fault_of(chain, presented, with_.client_id, now.at)
    if chain is None or fault is not None:
        return GrantResult(fault=fault or GrantError.INVALID)
    sign_in, token, successor = chain.sign_in, chain.token, chain.successor
    given: BearerToken | None = None
    if token.replace_time is not None:
        in_grace = now.at < token.replace_time + now.terms.grace
        if not in_grace or successor is None or successor.replace_time is not None:
            return revoke_for_reuse(sign_in, now.at, "refresh_token_reused")
        given = now.successors.again(presented, sign_in.tenant_id, successor)
        if given is None:
            return GrantResult(fault=GrantError.INVALID)
    if not with_.scopes <= sign_in.scopes:
        return GrantResult(fault=GrantError.SCOPE)
    if not set(with_.resources) <= set(sign_in.resources):
        return GrantResult(fault=GrantError.TARGET)
    changes = NO_CHANGES
    if given is None or successor is None:
        given = now.successors.next(presented, sign_in.tenant_id, now.chance.id(now.at))
        successor = _stored(given, now.at, min(now.at + now.terms.refresh, sign_in.expire_time))
        changes = GrantChanges(replaced=token.refresh_token_id, refresh_token=successor, used=now.at)
    issue = IssuedTokens(
        sign_in=sign_in,
        scopes=with_.scopes or sign_in.scopes,
        resources=with_.resources or sign_in.resources,
        refresh=given,
        refresh_expire_time=successor.expire_time,
        expire_time=min(now.at + now.terms.access, sign_in.expire_time),
    )
    return GrantResult(changes=changes, issue=issue)


def revoke_for_reuse(sign_in: AuthSession, at: datetime, reason: str) -> GrantResult:
    """Revoke a sign-in because something of it that works once was presented again."""
    changes = NO_CHANGES if sign_in.revoke_time is not None else GrantChanges(revoked=at, revoke_reason=reason)
    return GrantResult(changes=changes, fault=GrantError.REUSED)


def with_expire_time(sign_in: AuthSession, expire_time: datetime) -> AuthSession:
    """Let a grant that nobody has redeemed yet live as long as what leads to it."""
    return replace(sign_in, expire_time=expire_time)


def _is_clients(sign_in: AuthSession, presented: BearerToken, secret_hash: bytes, client_id: str) -> bool:
    return presented.proves(secret_hash) and sign_in.client_id == client_id


def _fits(code: AuthorizationCode, with_: CodeRequest) -> bool:
    return (
        bool(with_.client_id)
        and code.redirect_uri == with_.redirect_uri
        and verify_code_challenge(with_.verifier, code.code_challenge)
    )


def _fault_of(
    chain: RefreshTokenState | None, presented: BearerToken, client_id: str, at: datetime
) -> GrantError | None:
    """Say why a refresh token is good for nothing, whether it was replaced or not."""
    if chain is None or not _is_clients(chain.sign_in, presented, chain.token.secret_hash, client_id):
        return GrantError.INVALID
    if chain.sign_in.revoke_time is not None:
        return GrantError.INVALID
    is_over = at >= chain.sign_in.expire_time or (chain.token.replace_time is None and at >= chain.token.expire_time)
    return GrantError.EXPIRED if is_over else None


def issue_first_tokens(
    sign_in: AuthSession, now: StepContext, resources: tuple[str, ...], token: BearerToken | None
) -> GrantResult:
    """Give out the first tokens of a sign-in, which from now on lives as long as they can be renewed.

    `token` is its first refresh token; None for a client that takes none.
    """
    at, terms = now.at, now.terms
    ends = at + (terms.access if token is None else terms.sign_in)
    stored = None if token is None else _stored(token, at, min(at + terms.refresh, ends))
    issue = IssuedTokens(
        sign_in=with_expire_time(sign_in, ends),
        scopes=sign_in.scopes,
        resources=resources,
        refresh=token,
        refresh_expire_time=None if stored is None else stored.expire_time,
        expire_time=min(at + terms.access, ends),
        is_first=True,
    )
    return GrantResult(changes=GrantChanges(refresh_token=stored, used=at, expire_time=ends), issue=issue)


def _random_refresh_token(sign_in: AuthSession, now: StepContext) -> BearerToken:
    return BearerToken.made(REFRESH_PREFIX, sign_in.tenant_id, now.chance.id(now.at), now.chance.secret())


def _stored(token: BearerToken, at: datetime, expire_time: datetime) -> RefreshToken:
    return RefreshToken(
        refresh_token_id=token.token_id, secret_hash=token.secret_hash(), create_time=at, expire_time=expire_time
    )
