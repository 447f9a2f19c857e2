from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP
from fix_database import TestDatabase
from fix_tenancy import OPERATOR, ROLES, Person, key_of, serving

from skein.tenancy.v1 import members_pb2, tenancy_pb2

ISSUER = "https://skein.example.com"


class Inbox:
    """A real SMTP server that keeps what it takes."""

    def __init__(self, refusal: str = "") -> None:
        self._refusal = refusal
        self.taken: list[tuple[list[str], str]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        if self._refusal:
            return self._refusal
        self.taken.append((envelope.rcpt_tos, envelope.content.decode()))
        return "250 OK"


@asynccontextmanager
async def relay(inbox: Inbox) -> AsyncIterator[dict[str, str]]:
    """Run the server and return the settings that lead to it."""
    server = await asyncio.get_running_loop().create_server(lambda: SMTP(inbox), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield {
            "SKEIN_SMTP_URL": f"smtp://127.0.0.1:{port}?starttls=off",
            "SKEIN_MAIL_FROM": "skein@example.com",
            "SKEIN_ISSUER": ISSUER,
        }


async def mailed(database: TestDatabase) -> list[bool]:
    """Return of each invitation whether having its token shows that one has the address."""
    async with database.superuser() as connection:
        return [row["mailed"] for row in await connection.fetch("SELECT mailed FROM tenancy.invitations")]


@pytest.mark.system
async def test_an_invitation_is_mailed_and_its_token_is_shown_to_its_recipient_only(database: TestDatabase) -> None:
    person, inbox = Person.new(), Inbox()
    async with relay(inbox) as settings, serving(database, **settings) as tenancy:
        await tenancy.calls(OPERATOR).CreateOrganization(
            tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(slug="default"))
        )
        tenant_id = await tenancy.new_tenant()
        request = members_pb2.CreateInvitationRequest(email=person.email, role=ROLES["member"], request_id="r")

        made = await tenancy.calls(key_of(tenant_id)).CreateInvitation(request)
        await tenancy.calls(key_of(tenant_id)).CreateInvitation(request)

        ((to, text),) = inbox.taken
        items = re.search(re.escape(f"{ISSUER}/account/invitation?token=") + r"(\S+)", text.replace("=\r\n", ""))
        assert (made.token, made.link) == ("", "")
        assert to == [person.email]
        assert items
        assert await mailed(database) == [True]
        token = items.group(1).removeprefix("3D")
        await tenancy.calls(person.caller()).AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
        assert await tenancy.roles(tenant_id) == {person.account_id: "member"}


async def test_an_invitation_that_no_relay_takes_is_handed_over(database: TestDatabase) -> None:
    person = Person.new()
    async with relay(Inbox("550 no such mailbox")) as settings, serving(database, **settings) as tenancy:
        await tenancy.calls(OPERATOR).CreateOrganization(
            tenancy_pb2.CreateOrganizationRequest(organization=tenancy_pb2.Organization(slug="default"))
        )
        tenant_id = await tenancy.new_tenant()

        token = await tenancy.invited(tenant_id, person.email, "member")

        assert await mailed(database) == [False]
        await tenancy.calls(person.caller()).AcceptInvitation(members_pb2.AcceptInvitationRequest(token=token))
        assert await tenancy.roles(tenant_id) == {person.account_id: "member"}
