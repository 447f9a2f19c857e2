"""Reads of the access log, which is written within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fix_cluster import Tenant

from skein.memory.v1 import access_log_pb2 as pb


async def logged_accesses(
    tenant: Tenant, enough: Callable[[Sequence[pb.AccessEvent]], bool], **fields: Any
) -> list[pb.AccessEvent]:
    """Read the log until it has what the test waits for; the test's own time limit ends the wait."""
    while True:
        answer = await tenant.history.ListAccessLog(pb.ListAccessLogRequest(page_size=1000, **fields))
        if enough(answer.access_events):
            return list(answer.access_events)
        await asyncio.sleep(0.05)


async def failed_access(tenant: Tenant, method: str) -> pb.AccessEvent:
    """Return the one failed call of a method, once the log has it."""
    events = await logged_accesses(tenant, lambda found: method in {event.method for event in found}, failed_only=True)
    (event,) = [event for event in events if event.method == method]
    return event
