"""Authorization requests of OAuth clients (/authorize) and the person's answer. Knows no HTTP and no SQL.

Nothing is stored until the person approves: the request travels in an encrypted handle.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode
from uuid import UUID

from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import AuthSession
from skein_auth.auth_sessions.store import AuthSessionStore
from skein_auth.encryption import DecryptionError, SecretCipher
from skein_auth.errors import InvalidRequest, InvalidScope, InvalidTarget, TenantNotFound
from skein_auth.oauth.resources import resolve_resources
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import OIDC_SCOPES, Client
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.signing.access_tokens import AccessTokens
from skein_auth.tenant_directory import TenantDirectory
from skein_kit.calls.call import client_address, user_agent
from skein_kit.database.transactions import NO_TENANT
from skein_kit.errors import TenantMissing
from skein_kit.identity.identity_token import Caller
from skein_kit.identity.permissions import ROLE_PERMISSIONS, TENANT_PERMISSIONS
from skein_kit.ids import now

HANDLE_LIFETIME = timedelta(minutes=10)
_ENCRYPTION_NAME = "authorization request"


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationParameters:
    """The parameters of an authorization request (RFC 6749, 7636, 8707, OpenID Connect), not validated yet."""

    client_id: str
    redirect_uri: str
    response_type: str
    response_mode: str
    scope: str
    resources: Sequence[str]
    state: str
    nonce: str
    code_challenge: str
    code_challenge_method: str
    prompt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationRequest:
    """A valid request, as it travels in the handle."""

    client_id: str
    # Where the browser goes.
    redirect_uri: str
    # As in the request; empty when it named none.
    requested_redirect_uri: str
    scopes: list[str]
    resources: list[str]
    state: str
    nonce: str
    code_challenge: str
    # In Unix seconds.
    expire_time: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizationPrompt:
    """What the consent page shows."""

    handle: str
    client: Client
    request: AuthorizationRequest
    prompt: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A person's answer to an application or a device."""

    is_approved: bool
    # Empty: all that were requested.
    scopes: Sequence[str]
    tenant_id: UUID | None


class AuthorizationError(Exception):
    """An invalid request whose redirect URI is valid: an OAuth error code and its description."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


@dataclass(frozen=True, kw_only=True, slots=True)
class Authorizations:
    """Authorization requests and the answers of people."""

    registry: ClientRegistry
    store: AuthSessionStore
    auth_sessions: AuthSessions
    tokens: AccessTokens
    tenants: TenantDirectory
    cipher: SecretCipher
    audit: AuditRecorder

    async def create(self, request: AuthorizationParameters) -> AuthorizationPrompt | str:
        """Return the prompt for the person, or the redirect URL with an error.

        Raises ClientUnknown and InvalidRequest when there is no valid redirect URI.
        """
        client = await self.registry.get_fresh(request.client_id)
        redirect_uri = client.redirect(request.redirect_uri)
        if redirect_uri is None:
            raise InvalidRequest(violations=[("redirect_uri", "is not one that the application registered")])
        try:
            authorization = self._validate(request, client, redirect_uri)
        except AuthorizationError as error:
            parameters = {"error": error.error, "error_description": error.description, "state": request.state}
            return self._redirect(redirect_uri, parameters)
        handle = self.cipher.encrypt(json.dumps(asdict(authorization)).encode(), name=_ENCRYPTION_NAME)
        return AuthorizationPrompt(
            handle=base64.urlsafe_b64encode(handle).decode(),
            client=client,
            request=authorization,
            prompt=request.prompt,
        )

    async def approve(self, caller: Caller, handle: str, answer: Answer) -> str:
        """Record a person's answer; return the redirect URL. Raises InvalidRequest and TenantNotFound."""
        at = now()
        authorization = self._decrypt(handle, at)
        if not answer.is_approved:
            await self.audit.record(
                "authorization_denied", client_id=authorization.client_id, account_id=caller.require_account()
            )
            return self._deny(authorization, "The person denied the request.")
        session = await self.grant_session(
            caller,
            client_id=authorization.client_id,
            requested=authorization.scopes,
            answer=answer,
            resources=authorization.resources,
            nonce=authorization.nonce,
            at=at,
        )
        if session is None:
            return self._deny(authorization, "None of the requested scopes can be granted in this tenant.")
        session, code, token = grants.approve(
            session,
            authorization.requested_redirect_uri,
            authorization.code_challenge,
            self.auth_sessions.step_context(at),
        )
        await self.store.approve(session, code, address=client_address(), user_agent=user_agent())
        await self.audit.record("authorization_approved", **session.audit_fields())
        return self._redirect(authorization.redirect_uri, {"code": token.encode(), "state": authorization.state})

    async def grant_session(
        self,
        caller: Caller,
        *,
        client_id: str,
        requested: Collection[str],
        answer: Answer,
        resources: Sequence[str],
        at: datetime,
        nonce: str = "",
    ) -> AuthSession | None:
        """Return the new session of an application: the scopes requested, approved and allowed by the person's role.

        A session without a permission belongs to no tenant. None: no scope is left. Raises TenantMissing and
        TenantNotFound.
        """
        granted_scopes = frozenset(requested).intersection(answer.scopes or requested)
        tenant_id = answer.tenant_id
        scopes = granted_scopes & OIDC_SCOPES
        if permissions := granted_scopes & TENANT_PERMISSIONS:
            if tenant_id is None:
                raise TenantMissing
            membership = await self.tenants.get_membership(tenant_id, caller.require_account())
            if not membership.tenant_is_open or not membership.role:
                raise TenantNotFound
            permissions &= ROLE_PERMISSIONS[membership.role]
            scopes |= permissions
        if not scopes:
            return None
        login = (
            None
            if caller.auth_session_id is None
            else await self.auth_sessions.get_state(NO_TENANT, caller.auth_session_id)
        )
        return AuthSession(
            tenant_id=tenant_id if permissions and tenant_id is not None else NO_TENANT,
            auth_session_id=self.auth_sessions.random.new_id(at),
            account_id=caller.require_account(),
            client_id=client_id,
            scopes=scopes,
            resources=tuple(resources),
            nonce=nonce,
            auth_time=at if login is None else login.auth_time,
            create_time=at,
            expire_time=at,
        )

    def _validate(self, request: AuthorizationParameters, client: Client, redirect_uri: str) -> AuthorizationRequest:
        """Raises AuthorizationError for a request that cannot be granted."""
        if request.response_type != "code":
            raise AuthorizationError("unsupported_response_type", "The response_type must be code.")
        if clients.AUTHORIZATION_CODE not in client.grant_types:
            raise AuthorizationError("unauthorized_client", "The client did not register for authorization codes.")
        if request.response_mode not in {"", "query"}:
            raise AuthorizationError("invalid_request", "The response_mode must be query.")
        if request.code_challenge_method != "S256" or not grants.is_challenge(request.code_challenge):
            raise AuthorizationError(
                "invalid_request", "PKCE is required: code_challenge with code_challenge_method=S256."
            )
        prompts = frozenset(request.prompt.split())
        if "none" in prompts:
            raise AuthorizationError("interaction_required", "The person must always approve.")
        if not prompts <= {"login", "consent", "select_account"}:
            raise AuthorizationError("invalid_request", "The prompt must be login, consent or select_account.")
        try:
            scopes = client.scopes(request.scope)
            resources = resolve_resources(self.tokens, request.resources)
        except InvalidScope as refusal:
            raise AuthorizationError("invalid_scope", refusal.message) from None
        except InvalidTarget as refusal:
            raise AuthorizationError("invalid_target", refusal.message) from None
        return AuthorizationRequest(
            client_id=client.client_id,
            redirect_uri=redirect_uri,
            requested_redirect_uri=request.redirect_uri,
            scopes=sorted(scopes),
            resources=list(resources),
            state=request.state,
            nonce=request.nonce,
            code_challenge=request.code_challenge,
            expire_time=int((now() + HANDLE_LIFETIME).timestamp()),
        )

    def _decrypt(self, handle: str, at: datetime) -> AuthorizationRequest:
        try:
            encrypted = base64.b64decode(handle, altchars=b"-_", validate=True)
            authorization = AuthorizationRequest(**json.loads(self.cipher.decrypt(encrypted, name=_ENCRYPTION_NAME)))
        except (binascii.Error, ValueError, TypeError, DecryptionError):
            raise InvalidRequest from None
        if at >= datetime.fromtimestamp(authorization.expire_time, UTC):
            raise InvalidRequest
        return authorization

    def _deny(self, authorization: AuthorizationRequest, description: str) -> str:
        parameters = {"error": "access_denied", "error_description": description, "state": authorization.state}
        return self._redirect(authorization.redirect_uri, parameters)

    def _redirect(self, uri: str, parameters: dict[str, str]) -> str:
        nonempty_parameters = {name: value for name, value in parameters.items() if value}
        return f"{uri}{'&' if '?' in uri else '?'}{urlencode({**nonempty_parameters, 'iss': self.tokens.issuer()})}"
