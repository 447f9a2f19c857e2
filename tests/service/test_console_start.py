"""The console's first steps, from an empty tenant to a recalled memory, and the plots of usage."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_console import BrowserSession, filled
from fix_web import PASSWORD, new_person

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import limits_pb2, members_pb2
from skein_gateway.console import plots


@pytest.fixture
async def web(cluster: Cluster, tenant: Tenant) -> AsyncIterator[BrowserSession]:
    """A browser in which an owner of the tenant is signed in."""
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_OWNER)
    async with BrowserSession.of(cluster.addresses["http"]) as browser:
        await browser.sign_in(person.email, PASSWORD)
        yield browser


async def followed(web: BrowserSession, answer: httpx.Response) -> httpx.Response:
    assert answer.status_code == 303, answer.text
    return await web.client.get(answer.headers["location"])


def shown(page: httpx.Response, label: str) -> list[str]:
    """Return the commands of a page under a label, as a person copies them."""
    return [html.unescape(text) for text in re.findall(rf'aria-label="{label}">([^<]*)</pre>', page.text)]


@pytest.mark.system
async def test_an_empty_tenant_leads_to_a_recalled_memory(cluster: Cluster, web: BrowserSession) -> None:
    page = await web.page("start")
    made = await web.submit(page, "key")
    again = await web.submit(page, "key")
    secret = re.findall(r'value="(skein_\w+)"', made.text)[0]

    stored = await web.submit(made, "remember")
    page = await followed(web, stored)
    recalled = await web.page("start", q="what does Anna drink?")

    me = await cluster.with_key(secret).auth.GetMe(auth_pb2.GetMeRequest())
    assert "memory.write" in me.permissions
    assert f"export SKEIN_API_KEY={secret}" in shown(made, "Variables")[0]
    assert (secret in again.text, "This form was already submitted" in again.text) == (False, True)
    assert stored.headers["location"].endswith("#recall")
    assert "The memory is stored. Now recall it." in page.text
    hits = recalled.text[recalled.text.index('aria-label="Hits"') :]
    assert "<bdi>Anna prefers tea to coffee</bdi>" in hits
    assert recalled.text.count('<span class="chip good">done</span>') == 3


@pytest.mark.system
async def test_a_form_that_is_sent_twice_stores_one_memory(web: BrowserSession, tenant: Tenant) -> None:
    page = await web.page("start")

    first = await web.submit(page, "remember", content="<b>Ben</b>\r\ncycles")
    await web.submit(page, "remember", content="<b>Ben</b>\r\ncycles")

    memories = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert [memory.content for memory in memories] == ["<b>Ben</b>\ncycles"]
    assert "&lt;b&gt;Ben&lt;/b&gt;" in (await followed(web, first)).text


@pytest.mark.system
async def test_the_commands_of_the_page_do_the_same(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, tmp_path: Path
) -> None:
    text = "-- it's Anna's \"tea\" & $HOME \\ `ls`"
    await followed(web, await web.submit(await web.page("start"), "remember", content=text))
    page = await web.page("start", q=text)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")},
        "SKEIN_ENDPOINT": cluster.endpoint,
        "SKEIN_API_KEY": tenant.api_key,
        "SKEIN_DATA_DIR": str(tmp_path),
    }

    async def printed(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=environment, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, arguments
        return output.decode()

    commands = [shlex.split(command) for command in shown(page, "Command")]
    outputs = [await printed("-m", "skein_cluster", *command[1:]) for command in commands]
    outputs += [await printed("-c", program) for program in shown(page, "Python program")]
    for command in shown(page, "HTTP call"):
        _, url, *options = shlex.split(command.replace("\\\n", "").replace("$SKEIN_API_KEY", tenant.api_key))
        headers = dict(
            value.split(": ") for name, value in zip(options[::2], options[1::2], strict=True) if name == "-H"
        )
        answer = await web.client.post(url, content=options[options.index("-d") + 1], headers=headers)
        assert answer.status_code == 200, answer.text
        outputs.append(answer.text)

    # The same text from every door is one memory, and each door names it.
    (memory,) = (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories
    assert memory.content == text
    assert outputs[0].strip() == memory.memory_id
    assert json.loads(outputs[4])["memories"][0]["memoryId"] == memory.memory_id
    assert [command[0] for command in commands] == ["skein", "skein"]
    assert text in outputs[1]
    assert text in outputs[3]
    assert text in [hit["memory"]["content"] for hit in json.loads(outputs[5])["hits"]]


@pytest.mark.system
async def test_what_cannot_be_stored_is_refused_in_words(web: BrowserSession, tenant: Tenant) -> None:
    page = await web.page("start")

    for content in ("", "   ", "x" * 100_001):
        answer = await web.submit(page, "remember", content=content)

        assert (answer.status_code, 'role="alert"' in answer.text) == (400, True)
    nothing = await web.page("start", q="anything")
    assert "Nothing was found. Store a memory first" in nothing.text
    assert not (await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())).memories


@pytest.mark.system
async def test_a_viewer_is_told_whom_to_ask(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    form = filled(await web.page("start"), "remember")
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    page = await web.page("start")

    assert "ask an admin for a key" in page.text
    assert 'name="step" value="remember"' not in page.text
    assert (await web.send(form[""], form)).status_code == 400


@pytest.mark.system
async def test_usage_is_plotted_against_its_limits(cluster: Cluster, web: BrowserSession, tenant: Tenant) -> None:
    await tenant.memory.BatchCreateMemories(
        memory_pb2.BatchCreateMemoriesRequest(memories=[memory_pb2.Memory(content=f"{number}") for number in range(9)])
    )
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    await acting.tenancy.UpdateQuota(
        limits_pb2.UpdateQuotaRequest(quota=limits_pb2.Quota(memories=10, agents=5, requests_per_day=90_000))
    )

    month, day = await web.page("usage"), await web.page("usage", period="day")

    assert re.search(r'memories</th>\s*<td[^>]*><svg class="bar full"[^>]*aria-label="90 percent', month.text)
    assert "9 of 10" in month.text
    assert "nearly full" in month.text
    assert re.search(r'agents</th>\s*<td[^>]*><svg class="bar "', month.text)
    assert "no limit" in month.text
    assert "90\N{NARROW NO-BREAK SPACE}000" in month.text
    assert "the cluster’s default" in month.text
    for page in (month, day):
        assert "9 new memories in" in page.text
        assert "<script>" not in page.text
        assert "style=" not in page.text
    assert day.text.count("<title>") - 1 == 24


async def test_the_columns_of_a_chart_are_the_periods_of_the_calendar() -> None:
    day, week = 86_400, 604_800
    # Wednesday, 2026-11-25, 13:00 UTC; the Monday before it.
    at, monday = 1_795_611_600, 1_795_392_000

    chart = plots.Chart.of({monday: 4, monday - week: 1000}, start=monday - week, seconds=week, count=2)

    assert plots.start_of_unit(at, week) == monday == plots.start_of_unit(monday, week)
    assert plots.start_of_unit(at, day) == monday + 2 * day
    assert [(one.label, one.count) for one in chart.columns] == [
        ("week of 16 Nov 2026", 1000),
        ("week of 23 Nov 2026", 4),
    ]
    assert [one.height for one in chart.columns] == [100.0, 1.5]
    assert (chart.highest, chart.total) == (1000, 1004)


async def test_a_chart_without_counts_is_empty() -> None:
    chart = plots.Chart.of({}, start=0, seconds=3600, count=3)

    assert [(one.count, one.height) for one in chart.columns] == [(0, 0.0)] * 3
