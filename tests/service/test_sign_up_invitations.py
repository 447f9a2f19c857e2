"""Invitations at sign-up, which any caller may try."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from fix_database import TestDatabase

from skein_auth.accounts import self_service
from skein_auth.accounts.self_service import AccountSelfService
from skein_auth.attempts.limiter import AttemptLimiter, limits
from skein_auth.attempts.store import AttemptStore
from skein_auth.errors import SignUpClosed, TooManyAttempts
from skein_auth.settings import AuthSettings
from skein_auth.tenant_directory import Invitation
from skein_kit.database.transactions import Database


class Memberships:
    """Knows one invitation, and counts."""

    def __init__(self) -> None:
        self.call_count = 0

    async def find_invitation(self, token: str, _email: str) -> Invitation | None:
        self.call_count += 1
        return Invitation(is_mailed=True) if token == "right" else None


class PasswordHashed(Exception):
    """The sign-up got as far as its password."""


async def hashing(*_: object) -> str:
    raise PasswordHashed


async def test_a_source_of_wrong_invitations_is_looked_up_for_no_more(
    database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(self_service, "client_address", lambda: "192.0.2.1")
    known, settings = Memberships(), AuthSettings(address_limit_factor=0.3)
    async with Database.open(database.url, service="auth", size=2, timeout=30.0) as opened:
        nothing: dict[str, Any] = dict.fromkeys(("store", "auth_sessions", "one_time_tokens", "audit", "idempotency"))
        accounts = AccountSelfService(
            **nothing,
            passwords=cast("Any", SimpleNamespace(hash=hashing)),
            tenants=cast("Any", known),
            attempts=AttemptLimiter(AttemptStore(opened), limits(settings)),
            sign_up_rule="invited",
        )

        async def sign_up(token: str) -> None:
            await accounts.sign_up("a@example.com", "a long password", display_name="", invitation_token=token)

        for _ in range(3):
            with pytest.raises(PasswordHashed):
                await sign_up("right")
        for number in range(3):
            with pytest.raises(SignUpClosed):
                await sign_up(f"wrong {number}")
        with pytest.raises(TooManyAttempts):
            await sign_up("wrong")

    assert known.call_count == 6
