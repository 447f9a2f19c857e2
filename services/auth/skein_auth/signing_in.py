"""Signing in with an address and a password, and out again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from skein_auth.accounts import normal_email
from skein_auth.errors import SignInRefused
from skein_auth.one_time import client_address
from skein_kit.database import NO_TENANT
from skein_kit.errors import Refusal, ServiceUnavailable, TransactionConflict
from skein_kit.ids import now

if TYPE_CHECKING:
    from skein.auth.v1 import accounts_pb2 as pb
    from skein_auth.attempts import Attempts
    from skein_auth.audit import Audit
    from skein_auth.passwords import Passwords
    from skein_auth.sign_ins import SignIns
    from skein_auth.store.accounts import AccountStore, Credentials
    from skein_auth.totp import Totp
    from skein_kit.identity import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class SigningIn:
    """The way in with a password."""

    store: AccountStore
    passwords: Passwords
    totp: Totp
    sign_ins: SignIns
    attempts: Attempts
    audit: Audit

    async def sign_in(self, email: str, password: str, second_factor: str) -> tuple[pb.SignInTokens, pb.Account]:
        """Begin a sign-in. Whatever is wrong is one answer; only the right password learns of a second factor."""
        address = normal_email(email)
        async with self.attempts.failing(("account", address), ("address", client_address())):
            found = await self.store.credentials_of(address)
            try:
                account = await self._proved(found, password)
                await self.totp.check(account.account_id, second_factor)
            except Refusal as refusal:
                account_id = None if found is None else found.account_id
                await self.audit.record("sign_in", outcome="refused", reason=refusal.reason, account_id=account_id)
                raise
        tokens = await self.sign_ins.begin_own(account.account_id, at=now())
        await self._still_as_proved(account, tokens)
        await self.audit.record("sign_in", account_id=account.account_id, principal=f"account:{account.account_id}")
        return tokens, await self.store.get_account(account.account_id)

    async def refresh(self, refresh_token: str) -> pb.SignInTokens:
        """Replace a refresh token."""
        return await self.sign_ins.refresh_own(refresh_token)

    async def sign_out(self, who: Caller) -> None:
        """End the sign-in that calls."""
        if who.sign_in_id is not None and await self.sign_ins.revoke(NO_TENANT, who.sign_in_id, "sign_out"):
            await self.audit.record("sign_out")

    async def list_sessions(self, who: Caller, before: UUID | None, size: int) -> list[pb.AuthSession]:
        """Read a page of the live sign-ins of who calls, newest first, and say which one calls."""
        found = await self.sign_ins.list_of(who.account(), before, size)
        for session in found:
            session.current = session.auth_session_id == str(who.sign_in_id)
        return found

    async def _proved(self, found: Credentials | None, password: str) -> Credentials:
        stored = None if found is None else found.password_hash
        verdict = await self.passwords.verify(stored, password)
        if found is None or stored is None or not (verdict.ok and found.active):
            raise SignInRefused
        if verdict.rehash:
            # Who does not get their turn now is hashed anew at another sign-in.
            with suppress(ServiceUnavailable):
                await self.store.replace_hash(found.account_id, stored, await self.passwords.rehash(password))
        return found

    async def _still_as_proved(self, account: Credentials, tokens: pb.SignInTokens) -> None:
        """End a sign-in that began while the account was locked, or its password changed, behind its back."""
        found = await self.store.credentials(account.account_id)
        if found is None or not found.active or found.revision != account.revision:
            await self.sign_ins.revoke_one(account.account_id, UUID(tokens.auth_session_id), "account_changed")
            raise TransactionConflict
