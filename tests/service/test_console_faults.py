"""The console while something behind it is away, late or broken: it names what is missing and shows the rest."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, furnished
from fix_gateway import gateway_before
from fix_web import PASSWORD, new_person

from skein_kit.calls.call import Call
from skein_kit.errors import ServiceUnavailable

NOWHERE = "127.0.0.1:9"


@pytest.mark.system
@pytest.mark.parametrize(
    ("away", "shown"),
    [
        ("session", ("Recently changed memories", "Anna drinks tea")),
        ("memory", ("Newest sessions", "What did the doctor say")),
        ("tenancy", ("Recently changed memories", "Newest sessions")),
    ],
)
async def test_the_overview_names_the_service_that_is_away_and_shows_the_rest(
    cluster: Cluster, tenant: Tenant, away: str, shown: tuple[str, ...]
) -> None:
    await furnished(tenant)
    async with gateway_before(cluster, tenant, {}) as gateway, BrowserSession.of(gateway.host.addresses["http"]) as web:
        gateway.host.addresses[away] = NOWHERE
        await web.show_key(tenant.api_key)

        page = await web.page()
        memories = await web.page("memories")

    assert page.status_code == 200
    assert f"The service “{away}” is unavailable" in page.text
    assert "unreachable" in page.text
    assert shown[0] in page.text
    assert shown[1] in memories.text + page.text


@pytest.mark.parametrize(
    ("away", "name"),
    [("memory", "memories"), ("memory", "memory"), ("memory", "graph"), ("memory", "conflicts"), ("memory", "changes"),
     ("session", "sessions"), ("session", "session"), ("tenancy", "policy")],
)  # fmt: skip
async def test_a_page_whose_service_is_away_says_which(cluster: Cluster, tenant: Tenant, away: str, name: str) -> None:
    async with gateway_before(cluster, tenant, {}) as gateway, BrowserSession.of(gateway.host.addresses["http"]) as web:
        gateway.host.addresses[away] = NOWHERE
        await web.show_key(tenant.api_key)

        page = await web.page(name, id="some id")

    assert page.status_code == 503
    assert f"“{away}” is unavailable" in page.text
    assert "Traceback" not in page.text


@asynccontextmanager
async def through(address: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """Forward a port; yield where it listens, and what cuts it off."""
    writers: list[asyncio.StreamWriter] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while block := await reader.read(65536):
            writer.write(block)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = address.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writers.extend((writer, far_writer))
        await asyncio.gather(forward(reader, far_writer), forward(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    def cut() -> None:
        server.close()
        for writer in writers:
            writer.transport.abort()

    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", cut
    finally:
        cut()
        await server.wait_closed()


async def test_the_console_refuses_logins_without_auth_and_names_it(cluster: Cluster, tenant: Tenant) -> None:
    async with through(cluster.addresses["auth"]) as (address, cut):
        apart = dataclasses.replace(cluster, addresses={**cluster.addresses, "auth": address})
        async with (
            gateway_before(apart, tenant, {}) as gateway,
            BrowserSession.of(gateway.host.addresses["http"]) as web,
        ):
            page = await web.client.get("/")
            cut()

            entered = await web.submit(page, "key", key=tenant.api_key)
            gone = await web.submit(page, "sign_in", email="a@example.org", password=PASSWORD)

    assert [answer.status_code for answer in (entered, gone)] == [503, 503]
    assert all("“auth” is unavailable" in answer.text for answer in (entered, gone))


@pytest.mark.system
async def test_logging_out_while_auth_is_away_clears_the_cookie_and_says_so(cluster: Cluster, tenant: Tenant) -> None:
    person = await new_person(cluster, tenant)
    async with through(cluster.addresses["auth"]) as (address, cut):
        apart = dataclasses.replace(cluster, addresses={**cluster.addresses, "auth": address})
        async with (
            gateway_before(apart, tenant, {}) as gateway,
            BrowserSession.of(gateway.host.addresses["http"]) as web,
        ):
            page = await web.sign_in(person.email, PASSWORD)
            cut()

            answer = await web.submit(page, "sign_out")

    assert (answer.status_code, "“auth” is unavailable" in answer.text) == (503, True)
    assert "You are signed out of this browser" in answer.text
    assert "skein" not in web.client.cookies


async def test_search_names_the_branch_that_is_missing(cluster: Cluster, tenant: Tenant) -> None:
    async def fails(_request: Any, _call: Call) -> Any:
        raise ServiceUnavailable(service="recall")

    async with (
        gateway_before(cluster, tenant, {"Recall": fails}) as gateway,
        BrowserSession.of(gateway.host.addresses["http"]) as web,
    ):
        await web.show_key(tenant.api_key)

        page = await web.page("search", q="tea", memories="on", blocks="on")

    assert "The results are incomplete: memories did not answer" in page.text


@pytest.mark.system
async def test_an_internal_error_is_shown_without_its_text(
    cluster: Cluster, tenant: Tenant, capfd: pytest.CaptureFixture[str]
) -> None:
    async def breaks(_request: Any, _call: Call) -> Any:
        raise RuntimeError("the secret of the fault")

    async with (
        gateway_before(cluster, tenant, {"Recall": breaks}) as gateway,
        BrowserSession.of(gateway.host.addresses["http"]) as web,
    ):
        await web.show_key(tenant.api_key)

        page = await web.page("search", q="tea", memories="on")

    capfd.readouterr()
    assert page.status_code == 500
    assert "the secret of the fault" not in page.text
    assert 'role="alert"' in page.text
