from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID, uuid4

import pytest

from skein_recall.index.embedding_queue import (
    BATCH_CHARACTERS,
    MAX_CHARACTERS,
    MAX_ITEMS,
    SHORT_CHARACTERS,
    EmbeddingQueue,
)
from skein_recall.index.indexer import BATCH_ITEMS
from skein_recall.providers.text_embedder import IndexItem

A, B = uuid4(), uuid4()


def item(text: str = "tea", *, item_id: UUID | None = None, revision: int = 1) -> IndexItem:
    return IndexItem(item_id or uuid4(), revision, text)


class Index:
    """Notes whose portions it was given, each once it may go on."""

    def __init__(self) -> None:
        self.portions: list[tuple[UUID, list[IndexItem]]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.fails = False

    async def __call__(self, tenant_id: UUID, items: Sequence[IndexItem]) -> int:
        await self.go.wait()
        self.portions.append((tenant_id, list(items)))
        if self.fails:
            raise OSError
        return len(items)


async def ran(deferred: EmbeddingQueue, *tenants: UUID) -> None:
    task = asyncio.create_task(deferred.run())
    for tenant_id in tenants:
        await deferred.wait_drained(tenant_id, 10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_tenant_s_items_are_made_together_and_tenants_take_turns() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    deferred.put(A, [item() for _ in range(BATCH_ITEMS + 1)])
    deferred.put(B, [item(), item()])

    task = asyncio.create_task(deferred.run())
    await deferred.wait_drained(B, 10)
    await deferred.wait_drained(A, 10)
    task.cancel()

    assert [(whose, len(items)) for whose, items in index.portions] in (
        [(A, BATCH_ITEMS), (B, 2), (A, 1)],
        [(B, 2), (A, BATCH_ITEMS), (A, 1)],
    )
    assert deferred.depth == 0


async def test_the_newer_text_of_a_waiting_item_counts() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    first = item("tea")
    second = item("coffee", item_id=first.item_id, revision=2)
    deferred.put(A, [first])
    deferred.put(A, [second])

    await ran(deferred, A)

    assert index.portions == [(A, [second])]


@pytest.mark.parametrize(
    "more", [[item() for _ in range(MAX_ITEMS)], [item("x" * MAX_CHARACTERS)]], ids=["items", "characters"]
)
async def test_items_beyond_the_bound_are_not_taken(more: list[IndexItem]) -> None:
    deferred = EmbeddingQueue(Index())
    kept = item()
    assert deferred.put(A, [kept])

    taken = deferred.put(A, more)

    assert not taken
    assert deferred.item_ids(A) == {kept.item_id}


async def test_a_portion_that_fails_keeps_nothing_else_from_being_made() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    index.fails = True
    deferred.put(A, [item()])
    deferred.put(B, [item()])

    await ran(deferred, A, B)

    assert {whose for whose, _ in index.portions} == {A, B}
    assert not deferred.item_ids(A)


async def test_earlier_items_are_waited_for_and_later_ones_are_not() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    task = asyncio.create_task(deferred.run())
    index.go.clear()
    before = item()
    deferred.put(A, [before])
    waiting = asyncio.create_task(deferred.wait_drained(A, 10))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    deferred.put(A, [item()])

    index.go.set()
    await waiting

    assert index.portions[0] == (A, [before])
    task.cancel()


async def test_waiting_ends_in_time_and_a_tenant_without_items_waits_for_nothing() -> None:
    deferred = EmbeddingQueue(Index())
    deferred.put(A, [item()])

    await deferred.wait_drained(A, 0.01)
    await deferred.wait_drained(B, 10)

    assert len(deferred.item_ids(A)) == 1


async def test_a_tenant_with_a_waiting_caller_comes_first() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    deferred.put(A, [item()])
    deferred.put(B, [item()])
    waiting = asyncio.create_task(deferred.wait_drained(B, 10))
    await asyncio.sleep(0)

    task = asyncio.create_task(deferred.run())
    await waiting
    task.cancel()

    assert index.portions[0][0] == B


async def test_a_tenant_that_is_waited_for_all_the_time_leaves_turns_to_others() -> None:
    portions: list[UUID] = []

    async def index(tenant_id: UUID, items: Sequence[IndexItem]) -> int:
        portions.append(tenant_id)
        await deferred.wait_drained(A, 0)
        return len(items)

    deferred = EmbeddingQueue(index)
    deferred.put(A, [item() for _ in range(8 * BATCH_ITEMS)])
    deferred.put(B, [item() for _ in range(3 * BATCH_ITEMS)])

    await ran(deferred, A, B)

    assert portions[:6].count(B) == 3


async def test_a_tenant_s_short_items_do_not_wait_for_long_ones_of_another() -> None:
    may_end = asyncio.Event()
    made: list[UUID] = []

    async def index(tenant_id: UUID, items: Sequence[IndexItem]) -> int:
        if tenant_id == A:
            await may_end.wait()
        made.append(tenant_id)
        return len(items)

    deferred = EmbeddingQueue(index)
    deferred.put(A, [item("x" * (SHORT_CHARACTERS + 1))])
    task = asyncio.create_task(deferred.run())
    await asyncio.sleep(0)
    deferred.put(B, [item(), item()])

    await deferred.wait_drained(B, 10)
    before = made[:]
    may_end.set()
    await deferred.wait_drained(A, 10)
    task.cancel()

    assert before == [B]
    assert made == [B, A]


async def test_a_text_that_grew_is_made_once() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    short = item("tea")
    long = item("x" * (SHORT_CHARACTERS + 1), item_id=short.item_id, revision=2)
    deferred.put(A, [short])
    waiting = asyncio.create_task(deferred.wait_drained(A, 10))
    await asyncio.sleep(0)
    deferred.put(A, [long])
    deferred.put(B, [item()])

    await ran(deferred, A, B)
    await waiting

    assert [items for whose, items in index.portions if whose == A] == [[long]]
    assert deferred.depth == 0


async def test_a_portion_of_several_items_is_no_long_work() -> None:
    index = Index()
    deferred = EmbeddingQueue(index)
    deferred.put(A, [item("x" * SHORT_CHARACTERS) for _ in range(5)])

    await ran(deferred, A)

    assert max(sum(len(item.text) for item in items) for _, items in index.portions) <= BATCH_CHARACTERS
