"""The device grant (RFC 8628) as a pure state machine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

from skein_auth.auth_sessions.model import (
    AuthSession,
    GrantError,
    GrantResult,
    IssuedTokens,
    RefreshToken,
    StepContext,
    issue_first_tokens,
)
from skein_kit.identity.bearer_token import BearerToken

DEVICE_PREFIX = "skein_dev_"
# Added to the interval of a device that polls too fast.
SLOW_DOWN_STEP = timedelta(seconds=5)


class DeviceState(Enum):
    """The state of a device authorization."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    USED = "used"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceAuthorization:
    """A device that waits for a person's answer."""

    device_code_id: UUID
    secret_hash: bytes = field(repr=False)
    client_id: str
    scopes: frozenset[str]
    resources: tuple[str, ...]
    state: DeviceState
    interval: timedelta
    # Of a used device: when its approval was redeemed.
    poll_time: datetime | None = None
    expire_time: datetime
    # The auth session that the approval created.
    approved_tenant_id: UUID | None = None
    approved_auth_session_id: UUID | None = None

    def is_pending(self, at: datetime) -> bool:
        """Whether a person can still answer."""
        return self.state is DeviceState.PENDING and at < self.expire_time


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceTokenRequest:
    """The parameters of a token request with a device code, from an authenticated client."""

    client_id: str
    # Empty: all that were granted.
    resources: tuple[str, ...] = ()
    # The client gets refresh tokens.
    refreshes: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """The changed device authorization, and an error, or None when the device gets its tokens."""

    device: DeviceAuthorization
    error: GrantError | None


def poll(  # noqa: PLR0911 - one for each answer of RFC 8628.
    device: DeviceAuthorization | None,
    presented_token: BearerToken,
    request: DeviceTokenRequest,
    context: StepContext,
) -> PollResult | GrantError:
    """Poll for a person's answer. Polling too fast makes the interval longer.

    An approval is redeemed once. A device that lost the response may poll again within the grace.
    """
    if device is None or not presented_token.matches_hash(device.secret_hash) or device.client_id != request.client_id:
        return GrantError.INVALID
    if not set(request.resources) <= set(device.resources):
        return GrantError.TARGET
    at = context.at
    polled_device = replace(device, poll_time=at)
    if device.state is DeviceState.USED:
        in_grace = device.poll_time is not None and at < device.poll_time + context.lifetimes.grace
        return PollResult(device=device, error=None if in_grace else GrantError.REUSED)
    if at >= device.expire_time:
        return PollResult(device=device, error=GrantError.EXPIRED)
    if device.state is DeviceState.DENIED:
        return PollResult(device=polled_device, error=GrantError.DENIED)
    if device.poll_time is not None and at < device.poll_time + device.interval:
        return PollResult(
            device=replace(polled_device, interval=device.interval + SLOW_DOWN_STEP), error=GrantError.SLOW_DOWN
        )
    if device.state is DeviceState.PENDING:
        return PollResult(device=polled_device, error=GrantError.PENDING)
    return PollResult(device=replace(polled_device, state=DeviceState.USED), error=None)


def issue_device_tokens(
    session: AuthSession,
    live_token: RefreshToken | None,
    presented_token: BearerToken,
    request: DeviceTokenRequest,
    context: StepContext,
) -> GrantResult:
    """Issue a device's first tokens when its approval is redeemed, and the same ones again within the grace.

    `live_token` is the session's live refresh token. A device that refreshed its first one has read the response: the
    code issues no more tokens, and the grant stays.
    """
    if not session.is_live(context.at):
        return GrantResult(error=GrantError.INVALID)
    resources = request.resources or session.resources
    if live_token is None:
        token = (
            context.derivation.derive(presented_token, session.tenant_id, context.random.new_id(context.at))
            if request.refreshes
            else None
        )
        return issue_first_tokens(session, context, resources, token)
    refresh_token = context.derivation.rederive(presented_token, session.tenant_id, live_token)
    if refresh_token is None:
        return GrantResult(error=GrantError.INVALID)
    return GrantResult(
        tokens=IssuedTokens(
            session=session,
            scopes=session.scopes,
            resources=resources,
            refresh=refresh_token,
            refresh_expire_time=live_token.expire_time,
            expire_time=min(context.at + context.lifetimes.access, session.expire_time),
        )
    )
