"""The device grant (RFC 8628): its start, a person's answer, and the device's polls."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from skein_auth.attempts.limiter import AttemptLimiter
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.auth_sessions.auth_sessions import AuthSessions
from skein_auth.auth_sessions.model import AuthSession, GrantError, GrantResult
from skein_auth.errors import AccessDenied, DeviceCodeNotFound
from skein_auth.oauth.authorizations import Answer, Authorizations
from skein_auth.oauth.device_model import DEVICE_PREFIX, DeviceAuthorization, DeviceState, DeviceTokenRequest
from skein_auth.oauth.device_store import DeviceStore, PendingDevice
from skein_auth.oauth.resources import resolve_resources
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.model import Client, ClientCredentials
from skein_auth.oauth_clients.registry import ClientRegistry
from skein_auth.signing.access_tokens import AccessTokens
from skein_kit.calls.call import client_address, user_agent
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.identity.identity_token import Caller
from skein_kit.ids import now

# Without vowels, so no words; without letters that look like another.
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_CODE_LENGTH = 8
INTERVAL = timedelta(seconds=5)
# As long as RFC 8628 shows: a person finds the other device within ten minutes.
DEVICE_CODE_LIFETIME = timedelta(minutes=10)
# There are 20 ** 8 codes, so a collision is rare.
_MAX_ATTEMPTS = 5


def generate_user_code() -> str:
    """Draw a user code."""
    return "".join(secrets.choice(LETTERS) for _ in range(_CODE_LENGTH))


def normalize_user_code(text: str) -> str:
    """Return the letters of a code that a person typed, in any case and with any separators."""
    return "".join(letter for letter in text.upper() if letter.isalnum())


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFlow:
    """Device authorizations."""

    store: DeviceStore
    registry: ClientRegistry
    authorizations: Authorizations
    auth_sessions: AuthSessions
    tokens: AccessTokens
    attempts: AttemptLimiter
    audit: AuditRecorder
    lifetime: timedelta

    async def start(
        self, credentials: ClientCredentials, *, scope: str, resources: Sequence[str]
    ) -> tuple[BearerToken, str]:
        """Start a device authorization; return its device code and its user code."""
        # A device may be the first to name a public client; authenticate refreshes one with keys.
        if credentials.method != clients.PRIVATE_KEY_JWT and clients.is_document(credentials.client_id):
            await self.registry.get_fresh(credentials.client_id)
        client = await self.registry.authenticate(credentials)
        client.require_grant_type(clients.DEVICE_CODE)
        scopes = client.scopes(scope)
        known_resources = resolve_resources(self.tokens, resources)
        # Strangers at the same address must not delay an authenticated client.
        is_public = client.token_endpoint_auth_method == clients.AUTH_METHOD_NONE
        await self.attempts.charge("device_start", client_address() if is_public else f"client {client.client_id}")
        at = now()
        token = BearerToken.generate(
            DEVICE_PREFIX, NO_TENANT, self.auth_sessions.random.new_id(at), self.auth_sessions.random.new_secret()
        )
        device = DeviceAuthorization(
            device_code_id=token.token_id,
            secret_hash=token.secret_hash(),
            client_id=client.client_id,
            scopes=scopes,
            resources=known_resources,
            state=DeviceState.PENDING,
            interval=INTERVAL,
            expire_time=at + self.lifetime,
        )
        for _ in range(_MAX_ATTEMPTS):
            code = generate_user_code()
            if await self.store.start(device, code, at):
                return token, f"{code[:4]}-{code[4:]}"
        message = "no user code is free"
        raise LookupError(message)

    async def find_pending(self, caller: Caller, code: str) -> PendingDevice:
        """Return the pending device with this user code. Raises DeviceCodeNotFound and TooManyAttempts."""
        async with self.attempts.limit_failures(("user_code", str(caller.require_account()))):
            pending = await self.store.find_by_user_code(normalize_user_code(code))
            if pending is None or not pending.device.is_pending(now()):
                raise DeviceCodeNotFound
        return pending

    async def record_answer(self, caller: Caller, code: str, answer: Answer) -> None:
        """Record a person's answer. Raises DeviceCodeNotFound, TenantNotFound and, without a scope, AccessDenied."""
        device = (await self.find_pending(caller, code)).device
        at = now()
        if not answer.is_approved:
            if not await self.store.deny(device, at):
                raise DeviceCodeNotFound
            await self.audit.record("device_denied", client_id=device.client_id, account_id=caller.require_account())
            return
        session = await self.authorizations.grant_session(
            caller,
            client_id=device.client_id,
            requested=device.scopes,
            answer=answer,
            resources=device.resources,
            at=at,
        )
        if session is None:
            raise AccessDenied
        pending = replace(session, expire_time=device.expire_time)
        if not await self.store.approve(device, pending, at, address=client_address(), user_agent=user_agent()):
            raise DeviceCodeNotFound
        await self.audit.record("device_approved", **session.audit_fields())

    async def redeem(
        self, client: Client, code: str, resources: tuple[str, ...], at: datetime
    ) -> tuple[GrantResult, AuthSession | None]:
        """Redeem a device code; return the result, and the session when the device is approved."""
        presented_token = BearerToken.decode(DEVICE_PREFIX, code)
        if presented_token is None:
            return GrantResult(error=GrantError.INVALID), None
        request = DeviceTokenRequest(
            client_id=client.client_id,
            resources=resources,
            refreshes=clients.REFRESH_TOKEN in client.grant_types,
        )
        return await self.store.poll(presented_token, request, self.auth_sessions.step_context(at))
