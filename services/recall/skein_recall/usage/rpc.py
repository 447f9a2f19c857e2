"""The RPC that reads the counts of searches."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

import asyncpg

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.calls.call import Context
from skein_kit.calls.call import caller as caller_of
from skein_kit.errors import FieldInvalid
from skein_kit.ids import now
from skein_kit.rpc.well_known_types import read_time, to_timestamp
from skein_recall.usage.store import KEPT_DAYS, SearchCounter, SearchCountStore

_DEFAULT_DAYS = timedelta(days=30)


class UsageHandlers:
    """Reads of the counts of searches."""

    def __init__(self, store: SearchCountStore, counter: SearchCounter) -> None:
        """Read from `store`, after `counter` has stored what this process counted."""
        self._store = store
        self._counter = counter

    async def GetSearchCounts(self, request: pb.GetSearchCountsRequest, context: Context) -> pb.GetSearchCountsResponse:
        tenant_id, at = caller_of(context).require_tenant(), now()
        end = read_time(request, "end_time") or at
        start = read_time(request, "start_time") or end - _DEFAULT_DAYS
        if end < start:
            raise FieldInvalid(violations=[("end_time", "lies before start_time")])
        await self._counter.flush(tenant_id)
        first_day = max(start.astimezone(UTC), at - timedelta(days=KEPT_DAYS)).date()
        # The day of the last moment before the end.
        last_day = (end.astimezone(UTC) - timedelta(microseconds=1)).date()
        rows = await self._store.list_counts(tenant_id, first_day=first_day, last_day=last_day)
        return pb.GetSearchCountsResponse(
            days=[_day(day, of_day) for day, of_day in groupby(rows, key=lambda row: row["day"])]
        )


def _day(day: date, rows: Iterable[asyncpg.Record]) -> pb.SearchDay:
    result = pb.SearchDay(start_time=to_timestamp(datetime(day.year, day.month, day.day, tzinfo=UTC)))
    for row in rows:
        result.search_count += row["search_count"]
        result.unanswered_count += row["unanswered_count"]
        result.durations.add(max_milliseconds=row["max_milliseconds"], search_count=row["search_count"])
    return result
