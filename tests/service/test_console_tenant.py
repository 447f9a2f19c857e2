"""The console's pictures of a whole tenant: its graph, and its timeline."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from fix_cluster import Cluster, Tenant
from fix_console import HOSTILE_TITLE, BrowserSession, SeededData, furnished
from fix_web import PASSWORD, new_person

from skein.memory.v1 import memory_pb2
from skein.tenancy.v1 import members_pb2
from skein_gateway.console.timeline import Span
from skein_kit.rpc.well_known_types import to_timestamp


@pytest.fixture
async def seeded(tenant: Tenant) -> SeededData:
    return await furnished(tenant)


async def remember_at(tenant: Tenant, *times: datetime) -> list[str]:
    memories = [memory_pb2.Memory(content=f"At {time:%d %H:%M}.", create_time=to_timestamp(time)) for time in times]
    request = memory_pb2.BatchCreateMemoriesRequest(memories=memories)
    return [memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories]


def rows(text: str) -> list[tuple[str, str]]:
    """Return label and count of each row of the timeline."""
    found = re.findall(r'<p class="when">(.*?)</p>.*?<span class="figure">(\d+)<', text, re.DOTALL)
    return [(re.sub(r"<[^>]+>", "", label), count) for label, count in found]


@pytest.mark.system
async def test_the_graph_of_a_tenant_starts_from_what_is_linked_most(web: BrowserSession, seeded: SeededData) -> None:
    page = await web.page("graph")
    newest = await web.page("graph", start="newest")

    assert "<h1>Graph of the tenant</h1>" in page.text
    assert 'class="node middle"' in page.text
    for name in ("allergy", "cake", "budget"):
        assert f'graph?id={seeded.memory_ids[name]}"' in page.text
    # Nothing leads to the pattern of power but one link, and it is among no twelve.
    assert "Allergic to milk" in page.text
    assert HOSTILE_TITLE not in page.text
    assert f'graph?id={seeded.hostile_id}"' in newest.text
    assert re.search(r'<option value="newest" selected>', newest.text)


async def test_a_tenant_without_links_shows_its_newest_memories(web: BrowserSession, tenant: Tenant) -> None:
    empty = await web.page("graph")
    await tenant.remember("The kettle is red.")

    page = await web.page("graph")

    assert "No memories yet." in empty.text
    assert '<svg class="graph"' not in empty.text
    assert "The kettle is red.</text>" in page.text.replace("…", ".")
    assert "No links" in page.text


@pytest.mark.system
async def test_the_graph_of_many_memories_is_bounded_and_says_so(web: BrowserSession, tenant: Tenant) -> None:
    memories = [memory_pb2.Memory(content=f"number {number}") for number in range(300)]
    stored = await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    ids = [memory.memory_id for memory in stored.memories]
    links = [
        memory_pb2.Link(from_memory_id=ids[hub], relation="related", to_memory_id=ids[leaf])
        for hub in range(12)
        for leaf in range(12 + 24 * hub, 36 + 24 * hub)
    ]
    await tenant.links.BatchCreateLinks(memory_pb2.BatchCreateLinksRequest(links=links))

    page = await web.page("graph")

    assert page.text.count('<a href="/console/') > 80
    assert page.text.count('class="node') == 80
    assert "The graph shows 80 memories around the most linked ones; there are more." in page.text


@pytest.mark.system
async def test_the_timeline_goes_from_years_to_months_to_days(web: BrowserSession, tenant: Tenant) -> None:
    first, *_ = await remember_at(
        tenant,
        datetime(2024, 12, 31, 23, 59, tzinfo=UTC),
        datetime(2026, 3, 1, tzinfo=UTC),
        datetime(2026, 3, 14, 9, tzinfo=UTC),
        datetime(2026, 3, 14, 9, 30, tzinfo=UTC),
        datetime(2026, 4, 1, tzinfo=UTC),
    )

    year = await web.page("timeline")
    month = await web.page("timeline", at="2026-03")
    day = await web.page("timeline", at="2026-03-14")
    earlier = await web.page("timeline", at="2024")
    between = await web.page("timeline", at="2025")

    assert "<h1>Timeline: 2026</h1>" in year.text
    assert rows(year.text) == [("March", "3"), ("April", "1")]
    assert rows(month.text) == [("Sun 01 Mar", "1"), ("Sat 14 Mar", "2")]
    assert rows(day.text) == [("09:00", "2")]
    assert [text in day.text for text in ("At 14 09:00.", "At 14 09:30.", "At 01")] == [True, True, False]
    assert rows(earlier.text) == [("December", "1")]
    assert f'memory?id={first}"><bdi>At 31 23:59.' in earlier.text
    assert "No memories were created in 2025." in between.text
    for year_link in ("2024", "2025", "2026"):
        assert f'timeline?at={year_link}"' in year.text
    listed = re.findall(r'href="([^"]+)">List them', month.text)[0].replace("&amp;", "&")
    assert (await web.client.get(listed)).text.count('<li class="line">') == 3


@pytest.mark.system
async def test_a_timeline_that_cannot_be_is_refused_in_words(web: BrowserSession) -> None:
    for at in ("yesterday", "2026-13", "2026-02-30", "0001", "9999", "2026-03-14-05"):
        page = await web.page("timeline", at=at)

        assert page.status_code == 400, at
        assert "A timeline is that of a year, a month or a day" in page.text


async def test_an_empty_tenant_has_an_empty_timeline(web: BrowserSession) -> None:
    page = await web.page("timeline")

    assert f"No memories were created in {datetime.now(UTC).year}." in page.text


@pytest.mark.system
async def test_a_role_without_the_permission_has_no_picture(
    cluster: Cluster, web: BrowserSession, tenant: Tenant, other_tenant: Tenant
) -> None:
    await other_tenant.remember("The kettle is red.")
    person = await new_person(cluster, tenant, role=members_pb2.ROLE_VIEWER)
    web.client.cookies.clear()
    await web.sign_in(person.email, PASSWORD)

    for name in ("graph", "timeline"):
        page = await web.page(name)
        assert page.status_code == 200
        assert "kettle" not in page.text


def test_spans_follow_the_calendar() -> None:
    february, december = Span.read("2024-02"), Span.read("2025-12")
    day = Span.read("2026-03-01")

    assert (february.end, december.end) == (datetime(2024, 3, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert [one.text for one in day.within()] == ["2026", "2026-03"]
    assert [one.text if one else "" for one in (day.neighbour(-1), day.neighbour(1))] == ["2026-02-28", "2026-03-02"]
    assert [one.text if one else "" for one in (december.neighbour(-1), december.neighbour(1))] == [
        "2025-11",
        "2026-01",
    ]
    assert (Span.read("1970").neighbour(-1), Span.read("2999").neighbour(1)) == (None, None)
