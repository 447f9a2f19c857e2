"""Mail, taken by a small real SMTP server."""

from __future__ import annotations

import asyncio
import email
import email.policy
import io
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from fix_catalogue import over
from fix_certificates import certified

from skein_kit.outbound.mail import Mailer, MailSettings, SmtpRelay
from skein_kit.settings import SettingInvalid

SENDER = Address(display_name="Skein", addr_spec="skein@example.com")


@dataclass
class SmtpServer:
    """An SMTP server that keeps what it takes, once it has said what the test wants it to say."""

    # What it says to the first mails; after these it takes them.
    says: list[str] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    tries: int = 0
    port: int = 0

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        self.tries += 1
        if self.says:
            return self.says.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        return "250 OK"

    def mail(self) -> EmailMessage:
        """Return the only mail."""
        (envelope,) = self.envelopes
        assert isinstance(envelope.content, bytes)
        return email.message_from_bytes(envelope.content, policy=email.policy.default)


def known(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: LoginPassword) -> AuthResult:
    return AuthResult(success=data == LoginPassword(b"us/er", b"pass word"), handled=False)


@asynccontextmanager
async def serving(
    smtp_server: SmtpServer, tls: ssl.SSLContext | None = None, *, at_once: bool = False, **options: Any
) -> AsyncIterator[SmtpServer]:
    loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(smtp_server, hostname="localhost", tls_context=None if at_once else tls, loop=loop, **options),
        "127.0.0.1",
        0,
        ssl=tls if at_once else None,
    )
    smtp_server.port = server.sockets[0].getsockname()[1]
    try:
        yield smtp_server
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def smtp_server() -> AsyncIterator[SmtpServer]:
    async with serving(SmtpServer()) as result:
        yield result


def mailer(smtp_server: SmtpServer, url: str = "smtp://127.0.0.1:{port}?starttls=off", **keywords: Any) -> Mailer:
    return Mailer(SmtpRelay.parse(url.format(port=smtp_server.port)), SENDER, pauses=(0.0, 0.0), **keywords)


async def test_a_mail_arrives_as_it_was_written(smtp_server: SmtpServer) -> None:
    sent = await mailer(smtp_server).send("ann@example.com", "Grüße", "Hello Ann,\n\nhttps://example.com/?a=b – ü\n.\n")

    mail = smtp_server.mail()
    assert sent
    assert (smtp_server.envelopes[0].mail_from, smtp_server.envelopes[0].rcpt_tos) == (
        "skein@example.com",
        ["ann@example.com"],
    )
    assert (mail["From"], mail["To"], mail["Subject"]) == ("Skein <skein@example.com>", "ann@example.com", "Grüße")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@example.com>")
    assert mail["Date"].datetime.tzinfo is not None
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().replace("\r\n", "\n") == "Hello Ann,\n\nhttps://example.com/?a=b – ü\n.\n"


async def test_a_subject_cannot_end_its_header(smtp_server: SmtpServer) -> None:
    assert await mailer(smtp_server).send("ann@example.com", "Join\r\nBcc: eve@example.com\x00\u2028now", "x")

    mail = smtp_server.mail()
    assert mail["Subject"] == "Join Bcc: eve@example.com now"
    assert mail["Bcc"] is None
    assert smtp_server.envelopes[0].rcpt_tos == ["ann@example.com"]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ann",
        "ann@",
        "@example.com",
        "ann@example.com\r\nBcc: e@x.org",
        "a@x.org, b@x.org",
        "<ann@example.com>",
        "Ann <ann@example.com>",
        "ann@example.com>\r\nRCPT TO:<e@x.org",
        "änn@example.com",
    ],
)
async def test_a_malformed_address_gets_no_mail(smtp_server: SmtpServer, address: str) -> None:
    assert not await mailer(smtp_server).send(address, "x", "x")

    assert smtp_server.tries == 0


async def test_a_server_that_is_busy_is_asked_three_times(smtp_server: SmtpServer) -> None:
    smtp_server.says[:] = ["451 busy", "421 closing"]

    assert await mailer(smtp_server).send("ann@example.com", "x", "x")

    assert (smtp_server.tries, len(smtp_server.envelopes)) == (3, 1)


async def test_after_three_tries_nothing_is_tried_any_more(smtp_server: SmtpServer) -> None:
    smtp_server.says[:] = ["451 busy"] * 9

    assert not await mailer(smtp_server).send("ann@example.com", "x", "x")

    assert (smtp_server.tries, smtp_server.envelopes) == (3, [])


async def test_a_mail_that_a_server_refuses_for_good_is_not_tried_again(smtp_server: SmtpServer) -> None:
    smtp_server.says[:] = ["550 no such person"]

    assert not await mailer(smtp_server).send("ann@example.com", "x", "x")

    assert smtp_server.tries == 1


async def test_a_server_that_is_away_costs_no_error() -> None:
    assert not await mailer(SmtpServer(port=1)).send("ann@example.com", "x", "x")


async def test_a_failure_is_logged_without_address_and_content(smtp_server: SmtpServer, log: io.StringIO) -> None:
    smtp_server.says[:] = ["550 ann@example.com has moved"]

    await mailer(smtp_server).send("ann@example.com", "a subject", "a text")
    await mailer(smtp_server).send("ann@example.com", "a subject", "a text")

    # Other work of this process may say something as well.
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    failed, sent = (line for line in lines if line["event"].startswith("mail_"))
    assert (failed["event"], failed["error"], failed["status"]) == ("mail_not_sent", "SMTPRecipientRefused", 550)
    assert (sent["event"], sent["tries"]) == ("mail_sent", 1)
    log_text = json.dumps([failed, sent])
    assert not any(secret in log_text for secret in ("ann", "subject", "text", "moved"))


async def test_mail_and_password_travel_under_tls(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "localhost")
    options: dict[str, Any] = {"require_starttls": True, "auth_required": True, "authenticator": known}
    async with serving(SmtpServer(), server, **options) as smtp_server:
        url = "smtp://us%2Fer:pass%20word@localhost:{port}"

        assert await mailer(smtp_server, url, tls=client).send("ann@example.com", "x", "x")

    assert len(smtp_server.envelopes) == 1


async def test_a_wrong_password_is_not_tried_again(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "localhost")
    async with serving(SmtpServer(), server, auth_required=True, authenticator=known) as smtp_server:
        assert not await mailer(smtp_server, "smtp://u:wrong@localhost:{port}", tls=client).send(
            "ann@example.com", "x", "x"
        )

    assert smtp_server.tries == 0


async def test_tls_from_the_first_byte_works_too(tmp_path: Path) -> None:
    server, client = certified(tmp_path, "localhost")
    async with serving(SmtpServer(), server, at_once=True) as smtp_server:
        assert await mailer(smtp_server, "smtps://localhost:{port}", tls=client).send("ann@example.com", "x", "x")

    assert len(smtp_server.envelopes) == 1


@pytest.mark.parametrize("name", ["localhost", "other.example"])
async def test_a_certificate_of_an_unknown_authority_or_another_name_gets_no_mail(tmp_path: Path, name: str) -> None:
    server, client = certified(tmp_path, name)
    trust = None if name == "localhost" else client
    async with serving(SmtpServer(), server) as smtp_server:
        assert not await mailer(smtp_server, "smtp://localhost:{port}", tls=trust).send("ann@example.com", "x", "x")

    assert (smtp_server.tries, smtp_server.envelopes) == (0, [])


async def test_a_server_without_starttls_gets_no_mail(smtp_server: SmtpServer) -> None:
    assert not await mailer(smtp_server, "smtp://127.0.0.1:{port}?starttls=required").send("ann@example.com", "x", "x")

    assert (smtp_server.tries, smtp_server.envelopes) == (0, [])


def test_mail_is_off_unless_a_relay_is_set() -> None:
    assert not Mailer.from_settings(MailSettings()).configured
    assert Mailer.from_settings(MailSettings(smtp_url="smtp://localhost", mail_from="Skein <a@example.com>")).configured


def test_a_relay_s_password_is_shown_nowhere() -> None:
    settings = MailSettings.read({"SKEIN_SMTP_URL": "smtps://u:s3cret@mail.example", "SKEIN_MAIL_FROM": "a@b.org"})

    relay = SmtpRelay.parse(settings.smtp_url)

    assert (relay.user, relay.password, relay.port) == ("u", "s3cret", 465)
    assert "s3cret" not in f"{settings!r} {relay!r}"


@over(
    "url",
    [
        "mail.example",
        "http://mail.example",
        "smtp://",
        "smtp://mail.example/path",
        "smtp://mail.example:x",
        "smtp://mail.example?starttls=maybe",
        "smtp://mail.example?tls=off",
        "smtp://mail.example?x",
        "smtp://u:s3cret@mail.example?starttls=off",
    ],
)
def test_a_relay_that_cannot_be_is_refused_by_name_of_the_setting(url: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_SMTP_URL") as caught:
        Mailer.from_settings(MailSettings(smtp_url=url, mail_from="a@example.com"))

    assert "s3cret" not in str(caught.value)


@over("sender", ["", "skein", "a@b\r\nBcc: c@d.org"])
def test_mail_needs_a_sender(sender: str) -> None:
    with pytest.raises(SettingInvalid, match="SKEIN_MAIL_FROM"):
        Mailer.from_settings(MailSettings(smtp_url="smtp://localhost", mail_from=sender))
