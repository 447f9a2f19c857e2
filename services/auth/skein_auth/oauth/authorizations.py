"""What an application asks a person for at /authorize, and what comes of the answer. Knows no HTTP and no SQL.

Nothing is stored until the person agrees: the request travels in a sealed handle, which only we can write and read.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import AuthSession
from skein_auth.encryption import DecryptionError
from skein_auth.errors import InvalidRequest, InvalidScope, InvalidTarget, TenantNotFound
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import OIDC_SCOPES
from skein_auth.oauth_clients.registry import address
from skein_kit.calls.call import current_call
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import TenantMissing
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from skein.auth.v1 import oauth_pb2 as pb
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.auth_sessions.store import AuthSessionStore
    from skein_auth.encryption import SecretCipher
    from skein_auth.oauth_clients.model import Client
    from skein_auth.oauth_clients.registry import ClientRegistry
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_auth.tenancy.tenants import TenantDirectory
    from skein_kit.identity.identity_token import Caller

HANDLE_LIFETIME = timedelta(minutes=10)
_SEAL = "authorization request"


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationRequest:
    """A request that was found good: what the person is asked, and what is needed to answer."""

    client_id: str
    # Where the browser goes, and what the request said of that: empty when there was but one place.
    redirect_uri: str
    given_redirect_uri: str
    scopes: list[str]
    resources: list[str]
    state: str
    nonce: str
    code_challenge: str
    # In Unix seconds.
    expire_time: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationPrompt:
    """What to ask a person."""

    handle: str
    client: Client
    asked: AuthorizationRequest
    prompt: str


class AuthorizationError(Exception):
    """The request is at fault, and its redirect can be trusted; names one of OAuth's errors and says what is wrong."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


class Authorizations:
    """Questions to people, and their answers."""

    def __init__(
        self,
        *,
        applications: ClientRegistry,
        store: AuthSessionStore,
        sign_ins: AuthSessions,
        tokens: AccessTokens,
        tenants: TenantDirectory,
        sealer: SecretCipher,
        audit: AuditRecorder,
    ) -> None:
        self._applications = applications
        self._store = store
        self._sign_ins = sign_ins
        self._tokens = tokens
        self._tenants = tenants
        self._sealer = sealer
        self._audit = audit

    async def ask(self, request: pb.CreateAuthorizationRequest) -> AuthorizationPrompt | str:
        """Return what to ask the person, or where to send the browser with an error.

        Raises ClientUnknown and InvalidRequest when there is nowhere to send it.
        """
        client = await self._applications.current(request.client_id)
        redirect_uri = client.redirect(request.redirect_uri)
        if redirect_uri is None:
            raise InvalidRequest(violations=[("redirect_uri", "is not one that the application registered")])
        try:
            asked = self._asked(request, client, redirect_uri)
        except AuthorizationError as fault:
            facts = {"error": fault.error, "error_description": fault.description, "state": request.state}
            return self._redirect(redirect_uri, facts)
        handle = self._sealer.seal(json.dumps(asdict(asked)).encode(), name=_SEAL)
        return AuthorizationPrompt(
            handle=base64.urlsafe_b64encode(handle).decode(), client=client, asked=asked, prompt=request.prompt
        )

    async def answer(self, caller: Caller, request: pb.ApproveAuthorizationRequest, tenant_id: UUID | None) -> str:
        """Record a person's answer; return where to send the browser. Raises InvalidRequest and TenantNotFound."""
        at = now()
        asked = self._opened(request.handle, at)
        if not request.approved:
            await self._audit.record("authorization_denied", client_id=asked.client_id, account_id=caller.account())
            facts = {"error": "access_denied", "error_description": "The person said no.", "state": asked.state}
            return self._redirect(asked.redirect_uri, facts)
        sign_in = await self.granted(
            caller,
            client_id=asked.client_id,
            asked=asked.scopes,
            approved=request.scopes,
            resources=asked.resources,
            nonce=asked.nonce,
            tenant_id=tenant_id,
            at=at,
        )
        if sign_in is None:
            facts = {
                "error": "access_denied",
                "error_description": "Nothing that was asked for can be granted in this tenant.",
                "state": asked.state,
            }
            return self._redirect(asked.redirect_uri, facts)
        kept, code, token = grants.approve(
            sign_in, asked.given_redirect_uri, asked.code_challenge, self._sign_ins.now(at)
        )
        await self._store.approve(kept, code, address=address(), user_agent=user_agent())
        await self._audit.record(
            "authorization_approved",
            client_id=asked.client_id,
            account_id=caller.account(),
            tenant_id=kept.tenant_id,
            target=f"sign_in:{kept.sign_in_id}",
        )
        return self._redirect(asked.redirect_uri, {"code": token.text(), "state": asked.state})

    async def granted(
        self,
        caller: Caller,
        *,
        client_id: str,
        asked: Collection[str],
        approved: Collection[str],
        resources: Sequence[str],
        tenant_id: UUID | None,
        at: datetime,
        nonce: str = "",
    ) -> AuthSession | None:
        """Return the sign-in that an application gets: what it asked, what was granted and what the role allows.

        Without a permission in it, it belongs to no tenant. None: nothing is left. Raises TenantNotFound.
        """
        wanted = frozenset(asked) & frozenset(approved) if approved else frozenset(asked)
        scopes = wanted & OIDC_SCOPES
        if permissions := wanted & TENANT_PERMISSIONS:
            if tenant_id is None:
                raise TenantMissing
            standing = await self._tenants.standing(tenant_id, caller.account())
            if not standing.open or not standing.role:
                raise TenantNotFound
            permissions &= ROLE_PERMISSIONS[standing.role]
            scopes |= permissions
        if not scopes:
            return None
        live = None if caller.sign_in_id is None else await self._sign_ins.standing(NO_TENANT, caller.sign_in_id)
        return AuthSession(
            tenant_id=tenant_id if permissions and tenant_id is not None else NO_TENANT,
            sign_in_id=self._sign_ins.chance.id(at),
            account_id=caller.account(),
            client_id=client_id,
            scopes=scopes,
            resources=tuple(resources),
            nonce=nonce,
            auth_time=at if live is None else live.auth_time,
            create_time=at,
            expire_time=at,
        )

    def _asked(self, request: pb.CreateAuthorizationRequest, client: Client, redirect_uri: str) -> AuthorizationRequest:
        """Raise AuthorizationError for a request that cannot be granted."""
        if request.response_type != "code":
            raise AuthorizationError("unsupported_response_type", "The response_type must be code.")
        if clients.AUTHORIZATION_CODE not in client.grant_types:
            raise AuthorizationError("unauthorized_client", "The client did not register for authorization codes.")
        if request.response_mode not in {"", "query"}:
            raise AuthorizationError("invalid_request", "The response_mode must be query.")
        if request.code_challenge_method != "S256" or not grants.is_challenge(request.code_challenge):
            raise AuthorizationError(
                "invalid_request", "PKCE is needed: code_challenge with code_challenge_method=S256."
            )
        prompts = frozenset(request.prompt.split())
        if "none" in prompts:
            raise AuthorizationError("interaction_required", "The person is always asked.")
        if not prompts <= {"login", "consent", "select_account"}:
            raise AuthorizationError("invalid_request", "The prompt must be login, consent or select_account.")
        try:
            scopes = client.scopes(request.scope)
            resources = requested_resources(self._tokens, request.resources)
        except InvalidScope as refusal:
            raise AuthorizationError("invalid_scope", refusal.message) from None
        except InvalidTarget as refusal:
            raise AuthorizationError("invalid_target", refusal.message) from None
        return AuthorizationRequest(
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            given_redirect_uri=request.redirect_uri,
            scopes=sorted(scopes),
            resources=list(resources),
            state=request.state,
            nonce=request.nonce,
            code_challenge=request.code_challenge,
            expire_time=int((now() + HANDLE_LIFETIME).timestamp()),
        )

    def _opened(self, handle: str, at: datetime) -> AuthorizationRequest:
        try:
            sealed = base64.b64decode(handle, altchars=b"-_", validate=True)
            asked = AuthorizationRequest(**json.loads(self._sealer.open(sealed, name=_SEAL)))
        except (binascii.Error, ValueError, DecryptionError):
            raise InvalidRequest from None
        if at >= datetime.fromtimestamp(asked.expire_time, UTC):
            raise InvalidRequest
        return asked

    def _redirect(self, uri: str, facts: dict[str, str]) -> str:
        named = {name: value for name, value in facts.items() if value}
        return f"{uri}{'&' if '?' in uri else '?'}{urlencode({**named, 'iss': self._tokens.issuer()})}"


def requested_resources(tokens: AccessTokens, asked: Sequence[str]) -> tuple[str, ...]:
    """Return the resources asked for, each once, or the API; raise InvalidTarget for one that is not known."""
    known = tokens.resources()
    # An origin may be written with a slash at its end.
    wanted = tuple(dict.fromkeys(uri.removesuffix("/") if uri.count("/") == _ORIGIN_SLASHES else uri for uri in asked))
    if not set(wanted) <= set(known):
        raise InvalidTarget
    return wanted or known[:1]


_ORIGIN_SLASHES = 3


def user_agent() -> str:
    """Return what made the call at hand."""
    call = current_call()
    return "" if call is None else call.user_agent
