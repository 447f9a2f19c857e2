"""Devices without a browser (RFC 8628): the codes that they show, the person's answer, and how often they may ask."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_auth.auth_sessions import model as grants
from skein_auth.auth_sessions.model import GrantError
from skein_auth.errors import AccessDenied, DeviceCodeNotFound
from skein_auth.oauth import device_model
from skein_auth.oauth.authorizations import requested_resources, user_agent
from skein_auth.oauth.device_model import DEVICE_PREFIX, DeviceAuthorization, DeviceState
from skein_auth.oauth_clients import model as clients
from skein_auth.oauth_clients.registry import address
from skein_kit.database.transactions import NO_TENANT
from skein_kit.identity.bearer_token import BearerToken
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from skein.auth.v1 import oauth_pb2 as pb
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.auth_sessions.model import AuthSession, GrantResult
    from skein_auth.oauth.authorizations import Authorizations
    from skein_auth.oauth.device_store import DeviceStore, PendingDevice
    from skein_auth.oauth_clients.model import Client
    from skein_auth.oauth_clients.registry import ClientRegistry
    from skein_auth.signing.access_tokens import AccessTokens
    from skein_kit.identity.identity_token import Caller

# No vowels, so no words; nothing that looks like something else.
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_LENGTH = 8
INTERVAL = timedelta(seconds=5)
# 20 ** 8 codes: that two of those that wait are alike is not seen in practice.
_TRIES = 5


def user_code() -> str:
    """Draw what a device shows."""
    return "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))


def normalize_user_code(text: str) -> str:
    """Return the letters of a code as a person types it, in any case and with anything between them."""
    return "".join(letter for letter in text.upper() if letter.isalnum())


class DeviceFlow:
    """Devices that wait for a person."""

    def __init__(
        self,
        *,
        store: DeviceStore,
        applications: ClientRegistry,
        authorizations: Authorizations,
        sign_ins: AuthSessions,
        tokens: AccessTokens,
        attempts: AttemptLimiter,
        audit: AuditRecorder,
        lifetime: timedelta,
    ) -> None:
        self._store = store
        self._applications = applications
        self._authorizations = authorizations
        self._sign_ins = sign_ins
        self._tokens = tokens
        self._attempts = attempts
        self._audit = audit
        self.lifetime = lifetime

    async def start(self, request: pb.StartDeviceAuthorizationRequest) -> tuple[BearerToken, str]:
        """Give a device the code that it keeps and the one that it shows."""
        if clients.is_document(request.client.client_id):
            await self._applications.current(request.client.client_id)
        client = await self._applications.authenticated(request.client)
        client.must_use(clients.DEVICE_CODE)
        scopes = client.scopes(request.scope)
        resources = requested_resources(self._tokens, request.resources)
        # A client that proved itself does not wait for strangers of the same address.
        is_public = client.token_endpoint_auth_method == clients.AUTH_METHOD_NONE
        await self._attempts.charge("device_start", address() if is_public else f"client {client.client_id}")
        at = now()
        token = BearerToken.made(DEVICE_PREFIX, NO_TENANT, self._sign_ins.chance.id(at), self._sign_ins.chance.secret())
        device = DeviceAuthorization(
            device_code_id=token.token_id,
            secret_hash=token.secret_hash(),
            client_id=client.client_id,
            scopes=scopes,
            resources=resources,
            state=DeviceState.PENDING,
            interval=INTERVAL,
            expire_time=at + self.lifetime,
        )
        for _ in range(_TRIES):
            shown = user_code()
            if await self._store.start(device, shown, at):
                return token, f"{shown[:4]}-{shown[4:]}"
        message = "no letters are left for another device"
        raise LookupError(message)

    async def find(self, caller: Caller, code: str) -> PendingDevice:
        """Return the device that waits with this code. Raises DeviceCodeNotFound; guessing is limited."""
        async with self._attempts.failing(("user_code", str(caller.account()))):
            shown = await self._store.shown(normalize_user_code(code))
            if shown is None or not shown.device.waits(now()):
                raise DeviceCodeNotFound
        return shown

    async def answer(self, caller: Caller, request: pb.ApproveDeviceRequest, tenant_id: UUID | None) -> None:
        """Record a person's answer. Raises DeviceCodeNotFound, TenantNotFound and AccessDenied for nothing to grant."""
        device = (await self.find(caller, request.user_code)).device
        at = now()
        if not request.approved:
            if not await self._store.deny(device, at):
                raise DeviceCodeNotFound
            await self._audit.record("device_denied", client_id=device.client_id, account_id=caller.account())
            return
        sign_in = await self._authorizations.granted(
            caller,
            client_id=device.client_id,
            asked=device.scopes,
            approved=request.scopes,
            resources=device.resources,
            tenant_id=tenant_id,
            at=at,
        )
        if sign_in is None:
            raise AccessDenied
        waiting = grants.with_expire_time(sign_in, device.expire_time)
        if not await self._store.approve(device, waiting, at, address=address(), user_agent=user_agent()):
            raise DeviceCodeNotFound
        await self._audit.record(
            "device_approved",
            client_id=device.client_id,
            account_id=caller.account(),
            tenant_id=sign_in.tenant_id,
            target=f"sign_in:{sign_in.sign_in_id}",
        )

    async def redeem(
        self, client: Client, code: str, resources: Sequence[str], at: datetime
    ) -> tuple[GrantResult, AuthSession | None]:
        """Let a device ask for its answer."""
        presented = BearerToken.read(DEVICE_PREFIX, code)
        if presented is None:
            return grants.GrantResult(fault=GrantError.INVALID), None
        refreshes = clients.REFRESH_TOKEN in client.grant_types
        now_ = self._sign_ins.now(at)
        return await self._store.poll(
            presented,
            lambda device: device_model.poll(device, presented, client.client_id, resources, at, now_.terms.grace),
            lambda sign_in, live_token: device_model.issue_device_tokens(
                sign_in, live_token, presented, resources, now_, refreshes=refreshes
            ),
            at,
        )
