"""Logging out of the console ends the auth session; unknown pages are not found."""

from __future__ import annotations

import asyncio
import re

import pytest
from fix_cluster import Tenant
from fix_console import BrowserSession

from skein.memory.v1 import memory_pb2


async def test_signing_out_ends_the_change_log_of_the_same_key(web: BrowserSession) -> None:
    page = await web.page("changes")
    live = re.findall(r'data-live="([^"]+)"', page.text)[0].replace("&amp;", "&")

    async with asyncio.timeout(30), web.client.stream("GET", live) as stream:
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith("retry:")
        await web.submit(page, "sign_out")
        rest = [line async for line in lines]

    assert "event: change" not in rest
    assert (await web.client.get(live)).status_code == 204


async def test_an_unknown_page_is_explained_in_words(web: BrowserSession) -> None:
    answer = await web.page("nonsense")

    assert answer.status_code == 404
    assert ("This page does not exist." in answer.text, 'aria-label="Pages"' in answer.text) == (True, True)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("name", ["", "keys"])
async def test_a_slash_too_many_leads_to_the_page(web: BrowserSession, name: str) -> None:
    page = f"/console/{web.tenant_id}/{name}".rstrip("/")

    answer = await web.client.get(f"{page}/")

    assert (answer.status_code, answer.headers["location"]) == (303, page)


async def test_a_page_has_one_address(web: BrowserSession) -> None:
    plain = web.tenant_id

    for tenant_id in (plain.upper(), f"{{{plain}}}", plain.replace("-", ""), f"urn:uuid:{plain}"):
        web.tenant_id = tenant_id

        assert (await web.page("keys")).status_code == 404


@pytest.mark.system
async def test_two_memories_that_much_joins_are_drawn_and_told_in_part(web: BrowserSession, tenant: Tenant) -> None:
    stored = await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(memories=[memory_pb2.Memory(content=text) for text in ("one", "two")])
    )
    one, two = [memory.memory_id for memory in stored.memories]
    for begin in range(0, 400, 100):
        links = [
            memory_pb2.Link(from_memory_id=one, relation=f"relation_{number}", to_memory_id=two)
            for number in range(begin, begin + 100)
        ]
        await tenant.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=links))

    page = await web.page("graph", id=one)

    assert (page.text.count('<li class="line">'), page.text.count("marker-end=")) == (300, 9)
    assert "Not all links are listed. Select a relation" in page.text
    assert "and 384 more relations" in page.text
