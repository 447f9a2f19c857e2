"""Check, start, confirm and disable the second factor of an account."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skein.auth.v1 import accounts_pb2 as pb
from skein_auth.accounts.password_queue import QueueKey
from skein_auth.attempts.model import auth_session_subject
from skein_auth.errors import CodeWrong, PasswordWrong, SecondFactorNeeded, SignInRefused
from skein_auth.second_factor.model import Secret, is_totp, normalize_code, recovery_codes, recovery_hash
from skein_kit.errors import CredentialInvalid
from skein_kit.ids import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from skein_auth.accounts.passwords import Passwords
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.auth_sessions.auth_sessions import AuthSessions
    from skein_auth.encryption import SecretCipher
    from skein_auth.second_factor.model import SecondFactor
    from skein_auth.second_factor.store import TotpStore
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.identity.identity_token import Caller


class Totp:
    """The second factors of all accounts."""

    def __init__(
        self,
        store: TotpStore,
        sealer: SecretCipher,
        passwords: Passwords,
        sign_ins: AuthSessions,
        attempts: AttemptLimiter,
        audit: AuditRecorder,
    ) -> None:
        self._store = store
        self._sealer = sealer
        self._passwords = passwords
        self._sign_ins = sign_ins
        self._attempts = attempts
        self._audit = audit

    async def check(self, account_id: UUID, second_factor: str) -> None:
        """Let pass who has no second factor, or shows it; a code that was good is spent.

        Raises SecondFactorNeeded when it is empty and SignInRefused when it is wrong. The caller limits the attempts.
        """
        factor = await self._store.second_factor(account_id)
        if factor is None or not factor.confirmed:
            return
        if not second_factor:
            raise SecondFactorNeeded
        if not is_totp(second_factor):
            good = await self._store.spend_recovery_code(account_id, recovery_hash(second_factor))
        else:
            secret = self._opened(account_id, factor)
            step = secret.step_of(normalize_code(second_factor), now(), after=factor.step)
            good = step is not None and await self._store.spend_step(account_id, step)
            if good:
                await self._resealed(account_id, factor, secret)
        if not good:
            raise SignInRefused

    async def start(self, who: Caller, password: str, once: IdempotencyKey) -> pb.StartTotpResponse:
        """Make a secret that counts for nothing yet; a repeated request gets none."""
        account_id = who.account()
        async with self._watched(who, "totp_started"):
            email = await self._prove(who, password)
            secret = Secret.made()
            sealed = self._sealer.seal(secret.raw, name=_seal_name(account_id))
            if not await self._store.start(account_id, sealed, once):
                return pb.StartTotpResponse()
        return pb.StartTotpResponse(secret=secret.text(), uri=secret.uri(email or str(account_id)))

    async def confirm(self, who: Caller, code: str, once: IdempotencyKey) -> pb.ConfirmTotpResponse:
        """Make the second factor obligatory for who has it; a repeated request gets no recovery codes."""
        account_id = who.account()
        codes = recovery_codes()

        def step_of(factor: SecondFactor) -> int:
            step = self._opened(account_id, factor).step_of(code, now(), after=factor.step)
            if step is None:
                raise CodeWrong
            return step

        async with self._watched(who, "totp_confirmed"):
            is_first = await self._store.confirm(account_id, step_of, [recovery_hash(each) for each in codes], once)
        return pb.ConfirmTotpResponse(recovery_codes=codes if is_first else ())

    async def disable(self, who: Caller, password: str, second_factor: str, once: IdempotencyKey) -> None:
        """Remove the second factor for who has both factors."""
        account_id = who.account()

        def is_code(factor: SecondFactor) -> bool:
            step = self._opened(account_id, factor).step_of(normalize_code(second_factor), now(), after=factor.step)
            return step is not None

        async with self._watched(who, "totp_disabled"):
            await self._prove(who, password)
            if is_totp(second_factor):
                await self._store.disable(account_id, is_code, None, once)
            else:
                await self._store.disable(account_id, None, recovery_hash(second_factor), once)

    @asynccontextmanager
    async def _watched(self, who: Caller, event: str) -> AsyncIterator[None]:
        """Limit the failures of a sign-in, and record those that look like another person."""
        try:
            async with self._attempts.failing(("own_proof", auth_session_subject(who))):
                yield
        except (PasswordWrong, CodeWrong) as refusal:
            await self._audit.record(event, outcome="refused", reason=refusal.reason, account_id=who.account())
            raise

    async def _prove(self, who: Caller, password: str) -> str:
        """Return the account's address when this is its password; who has none must have signed in lately."""
        factor = await self._store.second_factor(who.account())
        if factor is None:
            raise CredentialInvalid
        if factor.password_hash is not None or password:
            place = QueueKey.of_account(who.account())
            verdict = await self._passwords.verify(factor.password_hash, password, place)
            if not verdict.ok:
                raise PasswordWrong
        else:
            await self._sign_ins.must_be_recent(who)
        return factor.email

    def _opened(self, account_id: UUID, factor: SecondFactor) -> Secret:
        return Secret(self._sealer.open(factor.sealed_secret, name=_seal_name(account_id)))

    async def _resealed(self, account_id: UUID, factor: SecondFactor, secret: Secret) -> None:
        """Seal a secret with the current system key, if it was sealed with the one before."""
        if not self._sealer.is_current(factor.sealed_secret, name=_seal_name(account_id)):
            sealed = self._sealer.seal(secret.raw, name=_seal_name(account_id))
            await self._store.reseal(account_id, factor.sealed_secret, sealed)


def _seal_name(account_id: UUID) -> str:
    return f"totp:{account_id}"
