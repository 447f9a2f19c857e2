"""Updates that continue after their reply."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

from skein_pc2.protocol.concurrency import RequestContext
from skein_pc2.reasoning.actions import background_updates
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates, Update


@asynccontextmanager
async def running(updates: BackgroundUpdates) -> AsyncIterator[None]:
    task = asyncio.create_task(updates.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def append_text(texts: list[str], text: str) -> Update:
    async def update(_context: RequestContext) -> None:
        texts.append(text)

    return update


async def wait_drained(updates: BackgroundUpdates) -> None:
    async with asyncio.timeout(30):
        await updates.wait_drained()


async def test_a_later_update_replaces_an_earlier_update_of_its_target() -> None:
    updates, texts = BackgroundUpdates(), list[str]()
    updates.submit("a", append_text(texts, "older"))
    updates.submit("a", append_text(texts, "newer"))
    updates.submit("b", append_text(texts, "other"))

    async with running(updates):
        await wait_drained(updates)

    assert texts == ["newer", "other"]


async def test_a_superseded_update_does_not_run() -> None:
    updates, texts = BackgroundUpdates(), list[str]()
    for target in ("a", "b"):
        updates.submit(target, append_text(texts, target))
    await updates.supersede(["a", "unknown"])

    async with running(updates):
        await wait_drained(updates)

    assert texts == ["b"]


async def test_supersede_waits_for_running_updates() -> None:
    updates, texts = BackgroundUpdates(), list[str]()
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow_update(_context: RequestContext) -> None:
        has_begun.set()
        await may_end.wait()
        texts.append("slow")

    updates.submit("a", slow_update)
    async with running(updates):
        await has_begun.wait()
        supersede_task = asyncio.create_task(updates.supersede(["a"]))
        may_end.set()
        await supersede_task

        assert texts == ["slow"]


async def test_an_update_is_retried_while_the_cluster_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_updates, "_PAUSE_SECONDS", 0.0)
    updates, texts = BackgroundUpdates(), list[str]()
    codes = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED]

    async def fail_twice(_context: RequestContext) -> None:
        if codes:
            raise aio.AioRpcError(codes.pop(), aio.Metadata(), aio.Metadata())
        texts.append("done")

    async def reject(_context: RequestContext) -> None:
        texts.append("refused")
        raise aio.AioRpcError(grpc.StatusCode.INVALID_ARGUMENT, aio.Metadata(), aio.Metadata())

    updates.submit("a", fail_twice)
    updates.submit("b", reject)
    async with running(updates):
        await wait_drained(updates)

    assert sorted(texts) == ["done", "refused"]


async def test_a_full_queue_drops_further_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_updates, "MAX_QUEUED_UPDATES", 2)
    updates, texts = BackgroundUpdates(), list[str]()
    for target in ("a", "b", "c"):
        updates.submit(target, append_text(texts, target))
    updates.submit("a", append_text(texts, "a again"))

    async with running(updates):
        await wait_drained(updates)

    assert texts == ["a again", "b"]
