"""One-time tokens: requests for them, the mails that carry them, and their redemption."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from skein_auth.accounts.known_devices import KnownDevices
from skein_auth.accounts.model import LoginCredentials, TokenPurpose, normalize_email, parse_one_time_token
from skein_auth.accounts.one_time_token_store import OneTimeTokenStore
from skein_auth.accounts.passwords import Passwords, QueueKey, normalize_new_password
from skein_auth.accounts.store import AccountStore
from skein_auth.attempts.limiter import AttemptLimiter
from skein_auth.audit.recorder import AuditRecorder
from skein_auth.errors import MailNotConfigured, TooManyAttempts
from skein_auth.settings import AuthSettings
from skein_kit.calls.call import client_address
from skein_kit.database.transactions import NO_TENANT
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore
from skein_kit.ids import now
from skein_kit.outbound.mail import Mailer
from skein_kit.telemetry import logs

# Mails that wait to be sent; a relay that hangs must delay no call.
MAX_QUEUED_MAILS = 1000
# A mailbox is looked into within a day; a link that sets a password is asked for by a person who waits.
VERIFICATION_LIFETIME = timedelta(days=1)
RESET_LIFETIME = timedelta(hours=1)
# Mails that the relay gets at a time.
SENDERS = 2

log = logs.get("auth")


@dataclass(frozen=True, slots=True)
class MailTemplate:
    """Subject and text of a mail; the link stands on a line of its own."""

    path: str
    subject: str
    text: str


TEMPLATES: Mapping[TokenPurpose, MailTemplate] = {
    TokenPurpose.EMAIL_VERIFICATION: MailTemplate(
        "/account/verify",
        "Is this your address?",
        "This address was entered for an account at {issuer}, probably by you.\n\n"
        "If it was you, open this link within {time}:\n\n{link}\n\n"
        "If it was not, do nothing.\n",
    ),
    TokenPurpose.PASSWORD_RESET: MailTemplate(
        "/account/reset",
        "A new password",
        "A new password for your account at {issuer} was requested, probably by you.\n\n"
        "If it was you, open this link within {time}:\n\n{link}\n\n"
        "If it was not, do nothing: your password stays as it is.\n",
    ),
}


def render_mail(purpose: TokenPurpose, issuer: str, token: str, lifetime: timedelta) -> tuple[str, str]:
    """Return the subject and the text of the mail that carries a token."""
    template = TEMPLATES[purpose]
    link = f"{issuer}{template.path}?token={token}"
    return template.subject, template.text.format(issuer=issuer, link=link, time=_format_duration(lifetime))


def _format_duration(lifetime: timedelta) -> str:
    minutes = int(lifetime.total_seconds()) // 60
    if minutes % 60:
        return f"{minutes} minutes"
    return "an hour" if minutes == 60 else f"{minutes // 60} hours"  # noqa: PLR2004 - minutes of an hour.


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingMail:
    """A mail to be written and sent."""

    account_id: UUID
    purpose: TokenPurpose
    email: str


class TokenMailer:
    """Writes tokens into mails and sends them in the background."""

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
        self._queue: asyncio.Queue[OutgoingMail] = asyncio.Queue(MAX_QUEUED_MAILS)
        self.lifetimes: Mapping[TokenPurpose, timedelta] = {
            TokenPurpose.EMAIL_VERIFICATION: VERIFICATION_LIFETIME,
            TokenPurpose.PASSWORD_RESET: RESET_LIFETIME,
        }

    @property
    def is_configured(self) -> bool:
        """Whether a mail relay is configured."""
        return self._mailer.configured

    def send(self, mail: OutgoingMail) -> None:
        """Queue a mail. The caller does not learn whether it was sent, nor that the queue is full."""
        try:
            self._queue.put_nowait(mail)
        except asyncio.QueueFull:
            log.warning("mail_not_sent", error="queue is full", purpose=mail.purpose.value)

    def senders(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return the background tasks that send mails, by name."""
        return {f"post_{number}": self._send_mails for number in range(1, SENDERS + 1)}

    async def _send_mails(self) -> None:
        while True:
            await self._deliver(await self._queue.get())

    async def _deliver(self, mail: OutgoingMail) -> None:
        try:
            await self._attempts.charge("mail_to", f"{mail.purpose.value} {mail.email}")
        except TooManyAttempts:
            # The mailbox has mails for this purpose, and their tokens work.
            log.warning("mail_not_sent", error="mailbox limit reached", purpose=mail.purpose.value)
            return
        lifetime = self.lifetimes[mail.purpose]
        token = await self._store.create(mail.account_id, mail.purpose, mail.email, lifetime)
        subject, text = render_mail(mail.purpose, self._issuer(), token.encode(), lifetime)
        await self._mailer.send(mail.email, subject, text)


@dataclass(frozen=True, kw_only=True, slots=True)
class OneTimeTokens:
    """Requests for one-time tokens, and their redemption."""

    store: OneTimeTokenStore
    accounts: AccountStore
    mailer: TokenMailer
    passwords: Passwords
    devices: KnownDevices
    attempts: AttemptLimiter
    audit: AuditRecorder
    idempotency: IdempotencyStore

    async def reset_password(self, text: str, new_password: str) -> None:
        """Spend a token and set a password. Raises PasswordTooShort, PasswordTooLong and OneTimeTokenInvalid."""
        password = normalize_new_password(new_password)
        token = parse_one_time_token(text)
        # Before hashing: a caller without a token causes no expensive work.
        account_id = await self.store.find_account_to_reset(token)
        queue_key = QueueKey.of_account(account_id)
        await self.store.reset_password(account_id, token, await self.passwords.hash(password, queue_key))

    async def request_reset(self, email: str, device_token: str) -> None:
        """Send a mail if an account has the address; the response does not tell whether one has it."""
        if not self.mailer.is_configured:
            raise MailNotConfigured
        account = await self.accounts.find_credentials(normalize_email(email))
        device = self.devices.recognize(device_token, account, now())
        requester = client_address() if device is None else f"device {device.device_id}"
        await self.attempts.charge("mail_request", requester)
        # One event in both cases, so that the time taken tells nothing about the address.
        await self.audit.record("password_reset_requested", account_id=None if account is None else account.account_id)
        if account is not None and account.active:
            self.mailer.send(
                OutgoingMail(account_id=account.account_id, purpose=TokenPurpose.PASSWORD_RESET, email=account.email)
            )

    async def request_verification(self, account_id: UUID, idempotency_key: IdempotencyKey) -> None:
        """Send another mail to the address that waits for verification, if there is one."""
        if not self.mailer.is_configured:
            raise MailNotConfigured
        await self.attempts.charge("mail_request", str(account_id))
        account = await self.accounts.get_credentials(account_id)
        async with self.idempotency.begin_with_key(NO_TENANT, idempotency_key, sees_repeats=True) as write:
            if write.saved_response is not None:
                return
            await self.audit.record_in(write.tx, "email_verification_requested", account_id=account_id)
        if account is not None:
            self.send_verification(account)

    def send_verification(self, account: LoginCredentials) -> None:
        """Send a mail to the address that waits for verification, if there is one and mail is configured."""
        email = account.new_email or ("" if account.email_verified else account.email)
        if email and self.mailer.is_configured:
            self.mailer.send(
                OutgoingMail(account_id=account.account_id, purpose=TokenPurpose.EMAIL_VERIFICATION, email=email)
            )
