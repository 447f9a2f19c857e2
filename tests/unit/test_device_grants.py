from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from uuid import UUID

from skein_auth.auth_sessions.auth_sessions import SystemRandomSource
from skein_auth.auth_sessions.model import (
    NO_CHANGES,
    AuthSession,
    GrantError,
    GrantResult,
    Lifetimes,
    RefreshTokenDerivation,
    StepContext,
)
from skein_auth.oauth import device_model
from skein_auth.oauth.device_model import DeviceAuthorization, DeviceState, DeviceTokenRequest, PollResult
from skein_kit.identity.bearer_token import BearerToken

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
SCOPES = frozenset({"memory.read"})
RESOURCES = ("https://skein.example",)
REQUEST = DeviceTokenRequest(client_id="tv")


def after(seconds: float) -> StepContext:
    at = START + timedelta(seconds=seconds)
    return StepContext(
        at=at, lifetimes=Lifetimes(), random=SystemRandomSource(), derivation=RefreshTokenDerivation(keys=(b"k" * 32,))
    )


def grant(revoke_time: datetime | None = None) -> AuthSession:
    return AuthSession(
        tenant_id=UUID(int=1),
        auth_session_id=UUID(int=2),
        account_id=UUID(int=3),
        client_id="tv",
        scopes=SCOPES,
        resources=RESOURCES,
        auth_time=START,
        create_time=START,
        expire_time=START + timedelta(seconds=600),
        revoke_time=revoke_time,
    )


def waiting(**changes: object) -> tuple[DeviceAuthorization, BearerToken]:
    token = BearerToken.generate(device_model.DEVICE_PREFIX, UUID(int=0), UUID(int=7), b"d" * 32)
    device = DeviceAuthorization(
        device_code_id=token.token_id,
        secret_hash=token.secret_hash(),
        client_id="tv",
        scopes=SCOPES,
        resources=RESOURCES,
        state=DeviceState.PENDING,
        interval=timedelta(seconds=5),
        expire_time=START + timedelta(seconds=600),
    )
    return dataclasses.replace(device, **changes), token  # type: ignore[arg-type]


def poll(device: DeviceAuthorization, token: BearerToken, seconds: float, client_id: str = "tv") -> PollResult:
    result = device_model.poll(device, token, DeviceTokenRequest(client_id=client_id), after(seconds))
    assert isinstance(result, PollResult)
    return result


def test_a_device_waits_for_its_answer_at_its_interval() -> None:
    device, token = waiting()

    first = poll(device, token, 1)
    second = poll(first.device, token, 6)

    assert (first.error, second.error) == (GrantError.PENDING, GrantError.PENDING)
    assert second.device.interval == timedelta(seconds=5)


def test_a_device_that_asks_too_soon_waits_longer_each_time() -> None:
    device, token = waiting(poll_time=START)

    first = poll(device, token, 4.9)
    second = poll(first.device, token, 14.8)

    assert (first.error, second.error) == (GrantError.SLOW_DOWN, GrantError.SLOW_DOWN)
    assert second.device.interval == timedelta(seconds=15)
    assert poll(second.device, token, 29.9).error is GrantError.PENDING


def test_an_approved_device_is_let_in_once() -> None:
    device, token = waiting(state=DeviceState.APPROVED)

    first = poll(device, token, 1)
    second = poll(first.device, token, 11)

    assert first.error is None
    assert first.device.state is DeviceState.USED
    assert second.error is GrantError.REUSED


def test_asking_again_does_not_prolong_the_grace_of_a_device() -> None:
    device, token = waiting(state=DeviceState.APPROVED)
    used = poll(device, token, 1).device

    again = poll(used, token, 10.9)
    late = poll(again.device, token, 11)

    assert (again.error, again.device) == (None, used)
    assert late.error is GrantError.REUSED


def test_a_revoked_approval_lets_no_device_in() -> None:
    live, revoked = grant(), grant(revoke_time=START)
    _, token = waiting()

    assert device_model.issue_device_tokens(live, None, token, REQUEST, after(1)).tokens is not None
    assert device_model.issue_device_tokens(revoked, None, token, REQUEST, after(1)) == GrantResult(
        error=GrantError.INVALID
    )


def test_a_device_that_asks_again_gets_the_same_refresh_token_and_changes_nothing() -> None:
    _, token = waiting()
    first = device_model.issue_device_tokens(grant(), None, token, REQUEST, after(1))
    assert first.tokens is not None

    again = device_model.issue_device_tokens(
        first.tokens.session, first.changes.refresh_token, token, REQUEST, after(2)
    )

    assert again.tokens is not None
    assert (again.tokens.refresh, again.tokens.is_first) == (first.tokens.refresh, False)
    assert again.changes == NO_CHANGES


def test_a_device_that_renewed_its_tokens_gets_none_for_its_code_and_loses_none() -> None:
    _, token = waiting()
    _, other = waiting()
    other = dataclasses.replace(other, secret=b"e" * 32)
    renewed = device_model.issue_device_tokens(grant(), None, other, REQUEST, after(1))
    assert renewed.tokens is not None

    again = device_model.issue_device_tokens(
        renewed.tokens.session, renewed.changes.refresh_token, token, REQUEST, after(2)
    )

    assert again == GrantResult(error=GrantError.INVALID)
