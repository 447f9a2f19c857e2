"""Reads of the access log, which is written within seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import grpc
from fix_cluster import Tenant, refused

from skein.memory.v1 import access_log_pb2 as pb
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.session.v1 import session_pb2


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


async def everything_logged(tenant: Tenant) -> None:
    """Wait until the log has all calls that have ended: each service writes its events in the order of their ends."""
    began = time.time_ns()
    missing = str(uuid4())
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=missing))
    with refused(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"):
        await tenant.sessions.GetSession(session_pb2.GetSessionRequest(session_id=missing))
    with refused(grpc.StatusCode.NOT_FOUND, "RECEIPT_NOT_FOUND"):
        await tenant.recall.GetRecallReceipt(recall_pb2.GetRecallReceiptRequest(receipt_id=missing))
    last = {"GetMemory", "GetSession", "GetRecallReceipt"}

    def has_all(found: Sequence[pb.AccessEvent]) -> bool:
        return last <= {event.method for event in found if event.create_time.ToNanoseconds() >= began}

    await logged_accesses(tenant, has_all, failed_only=True)
