"""One-time tokens: what they are good for, the mails that carry them, and what is done for who brings one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from skein_auth.accounts.model import normal_email
from skein_auth.accounts.one_time_token_model import PURPOSES, Purpose, parse
from skein_auth.accounts.password_queue import QueueKey
from skein_auth.accounts.passwords import accepted
from skein_auth.errors import MailNotConfigured, TooManyAttempts
from skein_kit.calls.call import current_call
from skein_kit.ids import now
from skein_kit.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from skein.auth.v1 import accounts_pb2 as pb
    from skein_auth.accounts.known_devices import KnownDevices
    from skein_auth.accounts.model import LoginCredentials
    from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
    from skein_auth.accounts.passwords import Passwords
    from skein_auth.accounts.store import AccountStore
    from skein_auth.attempts.model import AttemptLimiter
    from skein_auth.audit.recorder import AuditRecorder
    from skein_auth.settings import AuthSettings
    from skein_kit.idempotency.key import IdempotencyKey
    from skein_kit.outbound.mail import Mailer

# Mails that wait to be sent; of a relay that hangs nobody's call should notice anything.
MOST_WAITING = 1000
# Mails that are given to the relay at a time.
SENDERS = 2

log = logs.get("auth")


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """What a mail says; the link stands on a line of its own."""

    path: str
    subject: str
    text: str


LETTERS: Mapping[Purpose, MailTemplate] = {
    Purpose.EMAIL_VERIFICATION: MailTemplate(
        "/account/verify",
        "Is this your address?",
        "Somebody, probably you, gave this address for an account at {issuer}.\n\n"
        "If it was you, open this link within {time}:\n\n{link}\n\n"
        "If it was not, do nothing.\n",
    ),
    Purpose.PASSWORD_RESET: MailTemplate(
        "/account/reset",
        "A new password",
        "Somebody, probably you, asked for a new password for your account at {issuer}.\n\n"
        "If it was you, open this link within {time}:\n\n{link}\n\n"
        "If it was not, do nothing: your password stays as it is.\n",
    ),
}


def written(purpose: Purpose, issuer: str, token: str, lifetime: timedelta) -> tuple[str, str]:
    """Return the subject and the text of the mail that carries a token."""
    letter = LETTERS[purpose]
    link = f"{issuer}{letter.path}?token={token}"
    return letter.subject, letter.text.format(issuer=issuer, link=link, time=_spoken(lifetime))


def _spoken(lifetime: timedelta) -> str:
    minutes = int(lifetime.total_seconds()) // 60
    if minutes % 60:
        return f"{minutes} minutes"
    return "an hour" if minutes == 60 else f"{minutes // 60} hours"  # noqa: PLR2004 - minutes of an hour.


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingMail:
    """A mail to be written and sent."""

    account_id: UUID
    purpose: Purpose
    email: str


class TokenMailer:
    """Writes tokens into mails and sends them, beside the calls that ask for them."""

    def __init__(
        self,
        store: OneTimeTokenStore,
        mailer: Mailer,
        attempts: AttemptLimiter,
        settings: AuthSettings,
        issuer: Callable[[], str],
    ) -> None:
        self._store = store
        self._mailer = mailer
        self._attempts = attempts
        self._issuer = issuer
        self._waiting: asyncio.Queue[OutgoingMail] = asyncio.Queue(MOST_WAITING)
        self.lifetimes: Mapping[Purpose, timedelta] = {
            Purpose.EMAIL_VERIFICATION: timedelta(seconds=settings.verification_seconds),
            Purpose.PASSWORD_RESET: timedelta(seconds=settings.password_reset_seconds),
        }

    @property
    def configured(self) -> bool:
        """Say whether mail goes out at all."""
        return self._mailer.configured

    def send(self, errand: OutgoingMail) -> None:
        """Leave a mail to be sent. Nobody learns what became of it, not even that too many wait."""
        try:
            self._waiting.put_nowait(errand)
        except asyncio.QueueFull:
            log.warning("mail_not_sent", error="too many wait", purpose=errand.purpose.value)

    def senders(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the endless work of sending, by name."""
        return {f"post_{number}": self._keep_sending for number in range(1, SENDERS + 1)}

    async def _keep_sending(self) -> None:
        while True:
            await self._deliver(await self._waiting.get())

    async def _deliver(self, errand: OutgoingMail) -> None:
        try:
            await self._attempts.charge("mail_to", f"{errand.purpose.value} {errand.email}")
        except TooManyAttempts:
            # Each mail for this purpose that the mailbox has carries a token that works.
            log.warning("mail_not_sent", error="this mailbox got enough", purpose=errand.purpose.value)
            return
        lifetime = self.lifetimes[errand.purpose]
        token = await self._store.create(errand.account_id, errand.purpose, errand.email, lifetime)
        subject, text = written(errand.purpose, self._issuer(), token.text(), lifetime)
        await self._mailer.send(errand.email, subject, text)


class OneTimeTokens:
    """What is done for who asks for a token, and for who brings one."""

    def __init__(
        self,
        store: OneTimeTokenStore,
        accounts: AccountStore,
        post: TokenMailer,
        passwords: Passwords,
        devices: KnownDevices,
        attempts: AttemptLimiter,
        audit: AuditRecorder,
    ) -> None:
        self._store = store
        self._accounts = accounts
        self._devices = devices
        self._post = post
        self._passwords = passwords
        self._attempts = attempts
        self._audit = audit

    async def verify_email(self, text: str) -> pb.Account:
        """Spend a token that was sent to an address, which is thereby the account's."""
        return await self._store.verify_email(parse(text))

    async def reset_password(self, text: str, new_password: str) -> None:
        """Spend a token and set a password."""
        password = accepted(new_password)
        token = parse(text)
        # Before hashing: whoever has no token makes us do no work.
        account_id = await self._store.account_to_reset(token)
        place = QueueKey.of_account(account_id)
        await self._store.reset_password(account_id, token, await self._passwords.hash(password, place))

    async def request_reset(self, email: str, device_token: str) -> None:
        """Send a mail if an account has the address. Nobody can tell from outside whether one does."""
        if not self._post.configured:
            raise MailNotConfigured
        found = await self._accounts.credentials_of(normal_email(email))
        device = self._devices.known(device_token, found, now())
        requester = client_address() if device is None else f"device {device.device_id}"
        await self._attempts.charge("mail_request", requester)
        # One event either way: what is done for an address that is known takes no longer.
        await self._audit.record("password_reset_requested", account_id=None if found is None else found.account_id)
        if found is not None and found.active:
            self._post.send(
                OutgoingMail(account_id=found.account_id, purpose=Purpose.PASSWORD_RESET, email=found.email)
            )

    async def request_verification(self, account_id: UUID, once: IdempotencyKey) -> None:
        """Send another mail to the address that waits to be verified, if one does."""
        if not self._post.configured:
            raise MailNotConfigured
        await self._attempts.charge("mail_request", str(account_id))
        found = await self._accounts.credentials(account_id)
        if await self._store.request_verification(account_id, once) and found is not None:
            self.send_verification(found)

    def send_verification(self, account: LoginCredentials) -> None:
        """Send a mail to the address that waits to be verified, if one does and mail goes out."""
        email = account.new_email or ("" if account.email_verified else account.email)
        if email and self._post.configured:
            self._post.send(
                OutgoingMail(account_id=account.account_id, purpose=Purpose.EMAIL_VERIFICATION, email=email)
            )

    async def create(
        self, account_id: UUID, purpose: pb.TokenPurpose, once: IdempotencyKey
    ) -> pb.CreateOneTimeTokenResponse:
        """Make what would be sent by mail, for the operator to hand over."""
        kind = PURPOSES[purpose]
        return await self._store.create_for_operator(account_id, kind, self._post.lifetimes[kind], once)


def client_address() -> str:
    """Return where the call at hand came from, as the gateway saw it; empty when that is not known."""
    call = current_call()
    return "" if call is None else call.client_address
