"""The client's streams, which go on where they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import islice
from typing import Any

import pytest
from fix_cluster import Cluster, Tenant, running_cluster, test_environment

from skein.memory.v1 import history_pb2, memory_pb2
from skein.session.v1 import session_pb2
from skein_client import Client, ClientClosed, InvalidArgument, Message, NotFound, sync

SECONDS = 60.0


@pytest.fixture
async def skein(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Client]:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as client:
        yield client


@pytest.fixture(scope="module")
async def short(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A cluster whose streams grow old at once."""
    environment = {
        **test_environment(),
        "SKEIN_ADVANCED_MAX_STREAM_SECONDS": "0.3",
        "SKEIN_ADVANCED_STREAM_HEARTBEAT_SECONDS": "0.1",
    }
    async with running_cluster(tmp_path_factory.mktemp("short"), environment) as cluster:
        yield cluster


async def first(iterator: Any, count: int) -> list[Any]:
    results = []
    async with asyncio.timeout(SECONDS), aclosing(iterator):
        async for item in iterator:
            results.append(item)
            if len(results) == count:
                break
    return results


async def test_changes_are_watched_from_a_position_on(skein: Client) -> None:
    start = (await skein.history.ListChanges(history_pb2.ListChangesRequest())).position
    for text in ("tea", "coffee"):
        await skein.remember(text)

    one, two = await first(skein.stream_changes(position=start, event_types=["memory_created"]), 2)
    (again,) = await first(skein.stream_changes(position=one.position), 1)

    assert again == two


async def test_a_watch_that_is_refused_says_why(skein: Client) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await first(skein.stream_changes(position="nonsense"), 1)

    assert caught.value.reason == "POSITION_INVALID"
    assert caught.value.request_id


@pytest.mark.system
async def test_a_session_is_followed_over_many_streams_until_it_ends(short: Cluster) -> None:
    tenant = await short.new_tenant()
    async with Client(endpoint=short.endpoint, api_key=tenant.api_key) as skein:
        created = await skein.sessions.CreateSession(session_pb2.CreateSessionRequest())
        session_id = created.session.session_id

        async def speak() -> None:
            for number in range(6):
                message = Message(role=session_pb2.MESSAGE_ROLE_USER, content=str(number))
                await skein.remember(messages=[message], session_id=session_id)
                # Longer than a stream lasts, in all.
                await first(skein.sessions.StreamMessages(session_pb2.StreamMessagesRequest(session_id=session_id)), 3)
            await skein.sessions.EndSession(session_pb2.EndSessionRequest(session_id=session_id))

        speaking = asyncio.create_task(speak())
        received = await first(skein.follow_session(session_id, after_sequence=0), 100)
        await speaking

        assert [message.content for message in received] == [str(number) for number in range(6)]


async def test_a_session_that_is_not_there_is_not_followed(skein: Client) -> None:
    with pytest.raises(NotFound):
        await first(skein.follow_session("invented"), 1)


async def test_a_stub_s_stream_is_a_generator(skein: Client) -> None:
    (answer,) = await first(skein.history.StreamChanges(history_pb2.StreamChangesRequest()), 1)

    assert answer.position
    assert not answer.HasField("change")


async def test_the_blocking_client_watches_and_follows_too(cluster: Cluster, tenant: Tenant) -> None:
    def use() -> tuple[list[str], list[str]]:
        with sync.Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
            start = skein.history.ListChanges(history_pb2.ListChangesRequest()).position
            stored = skein.memories.CreateMemory(
                memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="tea"))
            )
            skein.remember(messages=[{"role": "user", "content": "hello"}], session_id="s")
            skein.sessions.EndSession(session_pb2.EndSessionRequest(session_id="s"))
            changes = [change.entity_id for change in islice(skein.stream_changes(position=start), 1)]
            assert changes == [stored.memory.memory_id]
            return changes, [message.content for message in skein.follow_session("s", after_sequence=0)]

    _, content = await asyncio.to_thread(use)

    assert content == ["hello"]


async def test_a_closed_client_streams_nothing(cluster: Cluster, tenant: Tenant) -> None:
    async with Client(endpoint=cluster.endpoint, api_key=tenant.api_key) as skein:
        watching = skein.stream_changes()

    with pytest.raises(ClientClosed):
        await first(watching, 1)
