"""The device grant (RFC 8628) as a pure state machine: how a device asks, and is let in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from skein_auth.auth_sessions.model import (
    AuthSession,
    GrantError,
    GrantResult,
    IssuedTokens,
    RefreshToken,
    StepContext,
    issue_first_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from skein_kit.identity.bearer_token import BearerToken

DEVICE_PREFIX = "skein_dev_"
# What a device that polls too fast has to wait longer.
SLOWER = timedelta(seconds=5)


class DeviceState(Enum):
    """How far a person is with their answer."""

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
    # The sign-in that the answer made.
    approved_tenant_id: UUID | None = None
    approved_sign_in_id: UUID | None = None

    def waits(self, at: datetime) -> bool:
        """Say whether a person can still answer."""
        return self.state is DeviceState.PENDING and at < self.expire_time


@dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """What comes of a device's asking: the device as it is from now on, and a fault, or None when it is let in."""

    device: DeviceAuthorization
    fault: GrantError | None


def poll(  # noqa: PLR0911 - one for each answer of RFC 8628.
    device: DeviceAuthorization | None,
    presented: BearerToken,
    client_id: str,
    resources: Sequence[str],
    at: datetime,
    grace: timedelta,
) -> PollResult | GrantError:
    """Let a device ask for its answer. Asking too fast makes it wait longer.

    An approval is redeemed once. A device that did not read the answer may ask again within `grace` of that.
    """
    if device is None or not presented.proves(device.secret_hash) or device.client_id != client_id:
        return GrantError.INVALID
    if not set(resources) <= set(device.resources):
        return GrantError.TARGET
    asked = replace(device, poll_time=at)
    if device.state is DeviceState.USED:
        in_grace = device.poll_time is not None and at < device.poll_time + grace
        return PollResult(device=device, fault=None if in_grace else GrantError.REUSED)
    if at >= device.expire_time:
        return PollResult(device=device, fault=GrantError.EXPIRED)
    if device.state is DeviceState.DENIED:
        return PollResult(device=asked, fault=GrantError.DENIED)
    if device.poll_time is not None and at < device.poll_time + device.interval:
        return PollResult(device=replace(asked, interval=device.interval + SLOWER), fault=GrantError.SLOW_DOWN)
    if device.state is DeviceState.PENDING:
        return PollResult(device=asked, fault=GrantError.PENDING)
    return PollResult(device=replace(asked, state=DeviceState.USED), fault=None)


def issue_device_tokens(
    sign_in: AuthSession,
    live_token: RefreshToken | None,
    presented: BearerToken,
    resources: Sequence[str],
    now: StepContext,
    *,
    refreshes: bool,
) -> GrantResult:
    """Give a device its first tokens once its approval is redeemed, and in the grace after that the same again.

    `live_token` is the sign-in's live refresh token. A device that renewed its first one has read the answer: it gets
    no tokens for the code any more, and keeps the grant.
    """
    if not sign_in.lives(now.at):
        return GrantResult(fault=GrantError.INVALID)
    granted = tuple(resources) or sign_in.resources
    if live_token is None:
        token = now.successors.next(presented, sign_in.tenant_id, now.chance.id(now.at)) if refreshes else None
        return issue_first_tokens(sign_in, now, granted, token)
    again = now.successors.again(presented, sign_in.tenant_id, live_token)
    if again is None:
        return GrantResult(fault=GrantError.INVALID)
    return GrantResult(
        issue=IssuedTokens(
            sign_in=sign_in,
            scopes=sign_in.scopes,
            resources=granted,
            refresh=again,
            refresh_expire_time=live_token.expire_time,
            expire_time=min(now.at + now.terms.access, sign_in.expire_time),
        )
    )
