"""Updates that are carried on after their answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc import aio

from skein_pc2.reasoning.actions import background_updates
from skein_pc2.reasoning.actions.background_updates import BackgroundUpdates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from skein_pc2.protocol.concurrency import RequestContext
    from skein_pc2.reasoning.actions.background_updates import Update


@asynccontextmanager
async def running(updates: BackgroundUpdates) -> AsyncIterator[None]:
    task = asyncio.create_task(updates.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def writing(done: list[str], text: str) -> Update:
    async def update(_errand: RequestContext) -> None:
        done.append(text)

    return update


async def drained(updates: BackgroundUpdates) -> None:
    async with asyncio.timeout(30):
        await updates.wait_drained()


async def test_the_later_of_two_updates_of_one_target_counts() -> None:
    updates, done = BackgroundUpdates(), list[str]()
    updates.submit("a", writing(done, "older"))
    updates.submit("a", writing(done, "newer"))
    updates.submit("b", writing(done, "other"))

    async with running(updates):
        await drained(updates)

    assert done == ["newer", "other"]


async def test_a_target_that_is_updated_otherwise_is_left_alone() -> None:
    updates, done = BackgroundUpdates(), list[str]()
    for target in ("a", "b"):
        updates.submit(target, writing(done, target))
    await updates.supersede(["a", "unknown"])

    async with running(updates):
        await drained(updates)

    assert done == ["b"]


async def test_superseding_waits_for_what_is_under_way() -> None:
    updates, done = BackgroundUpdates(), list[str]()
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(_errand: RequestContext) -> None:
        has_begun.set()
        await may_end.wait()
        done.append("slow")

    updates.submit("a", slow)
    async with running(updates):
        await has_begun.wait()
        waiting = asyncio.create_task(updates.supersede(["a"]))
        may_end.set()
        await waiting

        assert done == ["slow"]


async def test_an_update_is_tried_again_while_the_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_updates, "_PAUSE_SECONDS", 0.0)
    updates, done = BackgroundUpdates(), list[str]()
    codes = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED]

    async def failing(_errand: RequestContext) -> None:
        if codes:
            raise aio.AioRpcError(codes.pop(), aio.Metadata(), aio.Metadata())
        done.append("done")

    async def refused(_errand: RequestContext) -> None:
        done.append("refused")
        raise aio.AioRpcError(grpc.StatusCode.INVALID_ARGUMENT, aio.Metadata(), aio.Metadata())

    updates.submit("a", failing)
    updates.submit("b", refused)
    async with running(updates):
        await drained(updates)

    assert sorted(done) == ["done", "refused"]


async def test_more_updates_than_may_wait_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_updates, "MAX_WAITING", 2)
    updates, done = BackgroundUpdates(), list[str]()
    for target in ("a", "b", "c"):
        updates.submit(target, writing(done, target))
    updates.submit("a", writing(done, "a again"))

    async with running(updates):
        await drained(updates)

    assert done == ["a again", "b"]
