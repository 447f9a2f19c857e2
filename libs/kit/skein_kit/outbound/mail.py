"""Sends mail: plain text to one address, over TLS. Knows no texts."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import Sequence
from email import policy
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid, parseaddr
from urllib.parse import parse_qs, unquote, urlsplit

import aiosmtplib

from skein_kit.ids import now
from skein_kit.outbound.fetch import public_tls_context
from skein_kit.settings import SettingInvalid, Settings
from skein_kit.telemetry import logs

# Seconds of one attempt, from connecting to the last reply.
TIMEOUT_SECONDS = 10.0
# Seconds before the second and the third attempt.
PAUSES = (1.0, 3.0)
# The first SMTP status of a permanent failure; 4xx is temporary.
_PERMANENT = 500
_PORTS = {"smtp": 587, "smtps": 465}
_POLICY = policy.SMTP.clone(cte_type="7bit")

log = logs.get("mail")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MailSettings(Settings):
    """Settings of outgoing mail."""

    # smtp://user:password@host:587 (STARTTLS is required; "?starttls=off" sends without TLS, to a relay on this
    # machine) or smtps://user:password@host:465. Percent-encode all characters of user and password but
    # letters. Empty: no mail.
    smtp_url: str = dataclasses.field(default="", repr=False)
    # The sender of mail: "skein@example.com" or "Skein <skein@example.com>".
    mail_from: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SmtpRelay:
    """The SMTP server that accepts Skein's mail."""

    host: str
    port: int
    user: str
    password: str = dataclasses.field(repr=False)
    # TLS from the first byte, or after STARTTLS; neither: plain text.
    is_tls: bool
    is_starttls: bool

    @classmethod
    def parse(cls, url: str) -> SmtpRelay:
        """Parse an SMTP URL. Raises SettingInvalid, without the URL in its message."""
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS[parts.scheme]
            host = parts.hostname or ""
            options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        except (KeyError, ValueError):
            raise SettingInvalid(_SHAPE) from None
        starttls = options.pop("starttls", ["required"])
        if not host or options or parts.path not in ("", "/") or starttls not in (["required"], ["off"]):
            raise SettingInvalid(_SHAPE)
        is_tls, is_starttls = parts.scheme == "smtps", parts.scheme == "smtp" and starttls == ["required"]
        if parts.password and not (is_tls or is_starttls):
            raise SettingInvalid("SKEIN_SMTP_URL would send its password in the clear; leave out starttls=off.")
        return cls(
            host=host,
            port=port,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            is_tls=is_tls,
            is_starttls=is_starttls,
        )


_SHAPE = "SKEIN_SMTP_URL should be smtp://user:password@host:587, with ?starttls=off if need be, or smtps://…:465."


class Mailer:
    """Sends mail through the relay, if one is configured."""

    def __init__(
        self,
        relay: SmtpRelay | None,
        sender: Address | None,
        *,
        tls: ssl.SSLContext | None = None,
        pauses: Sequence[float] = PAUSES,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Use `tls` instead of public_tls_context(); `pauses` and `timeout` are in seconds."""
        self._relay = relay
        self._sender = sender
        self._tls = tls
        self._pauses = pauses
        self._timeout = timeout

    @classmethod
    def from_settings(cls, settings: MailSettings) -> Mailer:
        """Create a mailer. Raises SettingInvalid for invalid settings, at the start of the process."""
        if not settings.smtp_url:
            return cls(None, None)
        name, address = parseaddr(settings.mail_from)
        try:
            sender = Address(display_name=name, addr_spec=address)
        except (MessageError, ValueError, IndexError):
            sender = Address()
        if not sender.username or not sender.domain:
            raise SettingInvalid(
                "SKEIN_MAIL_FROM should be an address such as skein@example.com: SKEIN_SMTP_URL is set."
            )
        return cls(SmtpRelay.parse(settings.smtp_url), sender, tls=public_tls_context())

    @property
    def configured(self) -> bool:
        """Whether there is a relay."""
        return self._relay is not None

    async def send(self, to: str, subject: str, text: str) -> bool:
        """Send one mail and return whether the relay accepted it; repeat twice after temporary failures.

        It takes up to half a minute. Do not wait for it where the duration would show whether there was mail to send.
        """
        if self._relay is None or self._sender is None:
            message = "mail is not configured; check `configured` first"
            raise LookupError(message)
        mail = _format_message(self._sender, to, subject, text)
        if mail is None:
            log.warning("mail_not_sent", error="the address is invalid")
            return False
        for number, pause in enumerate((*self._pauses, None), 1):
            error = await self._try(self._relay, self._sender, to, mail)
            if error is None:
                log.info("mail_sent", message_id=mail["Message-ID"], tries=number)
                return True
            status = error.code if isinstance(error, aiosmtplib.SMTPResponseException) else None
            if pause is None or not _is_temporary(error, status):
                break
            await asyncio.sleep(pause)
        log.warning(
            "mail_not_sent", message_id=mail["Message-ID"], tries=number, error=type(error).__name__, status=status
        )
        return False

    async def _try(self, relay: SmtpRelay, sender: Address, to: str, mail: EmailMessage) -> Exception | None:
        """Return the error of one attempt, or None. Its text is the relay's and may quote the mail."""
        try:
            async with asyncio.timeout(self._timeout):
                await aiosmtplib.send(
                    mail,
                    sender=sender.addr_spec,
                    recipients=[to],
                    hostname=relay.host,
                    port=relay.port,
                    username=relay.user or None,
                    password=relay.password or None,
                    use_tls=relay.is_tls,
                    start_tls=relay.is_starttls,
                    tls_context=self._tls,
                    local_hostname=socket.gethostname(),
                    timeout=self._timeout,
                )
        except aiosmtplib.SMTPRecipientsRefused as error:
            return error.recipients[0]
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return error
        return None


def _is_temporary(error: Exception, status: int | None) -> bool:
    """Return whether another attempt may succeed."""
    if status is not None:
        return status < _PERMANENT
    return not isinstance(error, (aiosmtplib.SMTPNotSupported, ValueError))


def _format_message(sender: Address, to: str, subject: str, text: str) -> EmailMessage | None:
    """Return a mail; None for an invalid address. A space replaces characters that could end a header."""
    mail = EmailMessage(policy=_POLICY)
    try:
        to_header = Address(addr_spec=to)
        to.encode("ascii")
    except (MessageError, ValueError, IndexError):
        return None
    mail["From"] = sender
    mail["To"] = to_header
    mail["Subject"] = " ".join("".join(character if character.isprintable() else " " for character in subject).split())
    mail["Date"] = format_datetime(now())
    mail["Message-ID"] = make_msgid(domain=sender.domain)
    # Suppresses automatic replies (RFC 3834).
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text)
    return mail
