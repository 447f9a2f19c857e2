"""Counts of searches by day: how many, how many found nothing, how long they took; and the page that shows them."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from fix_access_log import logged_accesses
from fix_cluster import Tenant, refused
from fix_console import BrowserSession

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import access_log_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein_gateway.console import plots
from skein_kit.rpc.well_known_types import to_timestamp
from skein_recall.usage.store import LIMITS, LONGER, range_of


async def counts(tenant: Tenant, **fields: Any) -> list[pb.SearchDay]:
    return list((await tenant.recall.GetSearchCounts(pb.GetSearchCountsRequest(**fields))).days)


async def totals_once(tenant: Tenant, count: int) -> list[pb.SearchDay]:
    """Return the counts once they have so many searches: other processes add theirs within ten seconds."""
    async with asyncio.timeout(60):
        while True:
            days = await counts(tenant)
            if sum(day.search_count for day in days) >= count:
                return days
            await asyncio.sleep(0.1)


@pytest.mark.system
async def test_recalls_are_counted_by_day_with_what_found_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    await tenant.remember("The kettle is red.")
    await tenant.gateway.Recall(gateway_pb2.RecallRequest(query="which colour has the kettle?"))
    await tenant.recall.Recall(pb.RecallRequest(query="kettle"))
    await tenant.gateway.BuildContext(gateway_pb2.BuildContextRequest(recall=gateway_pb2.RecallRequest(query="kettle")))
    await tenant.recall.Recall(pb.RecallRequest(query="zeppelin", mode=pb.SEARCH_MODE_KEYWORD))

    days = await totals_once(tenant, 4)

    assert sum(day.search_count for day in days) == 4
    assert sum(day.unanswered_count for day in days) == 1
    for day in days:
        assert sum(one.search_count for one in day.durations) == day.search_count
        assert {one.max_milliseconds for one in day.durations} <= {*LIMITS, LONGER}
        assert day.start_time.seconds % 86_400 == 0
    assert await counts(other_tenant) == []


async def test_counts_are_those_of_the_days_that_are_asked_for(tenant: Tenant) -> None:
    await tenant.recall.Recall(pb.RecallRequest(query="zeppelin"))
    await totals_once(tenant, 1)
    now = datetime.now(UTC)

    assert (
        await counts(
            tenant, end_time=to_timestamp(now - timedelta(days=1)), start_time=to_timestamp(now - timedelta(days=3))
        )
        == []
    )
    assert len(await counts(tenant, start_time=to_timestamp(now - timedelta(days=3)))) == 1
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await counts(tenant, start_time=to_timestamp(now), end_time=to_timestamp(now - timedelta(days=1)))


async def test_counts_through_the_last_possible_day_are_empty(tenant: Tenant) -> None:
    last_day = to_timestamp(datetime(9999, 12, 31, 12, tzinfo=UTC))

    assert await counts(tenant, start_time=to_timestamp(datetime.now(UTC)), end_time=last_day) == []


@pytest.mark.system
async def test_the_log_lists_searches_that_found_nothing(tenant: Tenant) -> None:
    await tenant.remember("The kettle is red.")
    await tenant.recall.Recall(pb.RecallRequest(query="kettle"))
    await tenant.recall.Recall(pb.RecallRequest(query="zeppelin", mode=pb.SEARCH_MODE_KEYWORD))
    # A message alone answers too.
    message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content="The lantern is green.")
    await tenant.gateway.Remember(gateway_pb2.RememberRequest(session_id="kitchen", messages=[message]))
    await tenant.recall.Recall(pb.RecallRequest(query="lantern", mode=pb.SEARCH_MODE_KEYWORD))
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "QUERY_EMPTY"):
        await tenant.recall.Recall(pb.RecallRequest())

    await logged_accesses(tenant, lambda found: len(found) >= 4, operation=access_log_pb2.ACCESS_OPERATION_SEARCH)
    (entry,) = await logged_accesses(tenant, lambda found: len(found) == 1, unanswered_only=True)

    assert (entry.method, entry.item_count, entry.success) == ("Recall", 0, True)
    # The tenant's policy keeps a digest.
    assert "zeppelin" not in str(entry)


@pytest.mark.system
async def test_the_usage_page_shows_recalls_and_what_nothing_answered(web: BrowserSession, tenant: Tenant) -> None:
    before = await web.page("usage")
    await tenant.set_policy(audit_query_text=True)
    await tenant.remember("The kettle is red.")
    await tenant.recall.Recall(pb.RecallRequest(query="kettle"))
    for _ in range(2):
        await tenant.recall.Recall(pb.RecallRequest(query="<b>zeppelin\u202e", mode=pb.SEARCH_MODE_KEYWORD))
    await totals_once(tenant, 3)
    await logged_accesses(tenant, lambda found: len(found) == 2, unanswered_only=True)

    page = await web.page("usage")

    assert "No recalls yet." in before.text
    assert re.search(r"<dt>recalls</dt><dd>3</dd>", page.text)
    assert re.search(r"<dt>nothing answered</dt><dd>2 <small>67 %</small>", page.text)
    assert re.search(r"<dt>half took at most</dt><dd>(\d+ <small>ms|&gt; 5 s)", page.text)
    assert "<bdi>&lt;b&gt;zeppelin[U+202E]</bdi>" in page.text
    assert "2 times, the last" in page.text
    for period in ("day", "month", "year"):
        assert (await web.page("usage", period=period)).status_code == 200


@pytest.mark.system
async def test_without_the_policy_the_usage_page_counts_and_shows_no_text(web: BrowserSession, tenant: Tenant) -> None:
    await tenant.recall.Recall(pb.RecallRequest(query="zeppelin"))
    await logged_accesses(tenant, lambda found: len(found) == 1, unanswered_only=True)

    page = await web.page("usage")

    assert "Questions that are not stored" in page.text
    assert "zeppelin" not in page.text


@pytest.mark.system
def test_durations_are_sorted_into_ranges_and_read_as_shares() -> None:
    def day(**durations: int) -> pb.SearchDay:
        result = pb.SearchDay(search_count=sum(durations.values()), unanswered_count=1)
        for limit, count in durations.items():
            result.durations.add(max_milliseconds=int(limit[1:]), search_count=count)
        return result

    recalls = plots.Recalls.of([day(_10=50, _20=45), day(_500=4, _0=1)])

    assert [range_of(value) for value in (0.0, 5.0, 5.1, 5000, 5001)] == [5, 5, 10, 5000, LONGER]
    assert (recalls.total, recalls.unanswered, recalls.median, recalls.slow) == (100, 2, 10, 20)
    assert plots.Recalls.of([day(_0=3)]).median is None
    assert plots.Recalls.of([]).total == 0
