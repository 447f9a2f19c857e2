"""What BM25 needs to know of all documents: right at any time, counted behind the writers, kept of frequent terms."""

from __future__ import annotations

import asyncio
from uuid import UUID

import numpy as np
import pytest
from fix_recall import RecallTenant
from numpy.typing import NDArray

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_recall.index.term_counts import MIN_FREQUENCY

LINES = ("green tea", "black tea with milk", "coffee", "the kettle is on the stove")


async def many(
    recall_tenant: RecallTenant, text: str, count: int, *, embedding: NDArray[np.float32] | None = None
) -> list[UUID]:
    """Write index rows alone: nothing here reads the items."""
    documents = [
        postings.Document(item_id=new_id(now()), kind="memory", text=text, embedding=embedding) for _ in range(count)
    ]
    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.add_documents(tx, recall_tenant.tenant_id, documents)
    return [document.item_id for document in documents]


async def forget(recall_tenant: RecallTenant, item_ids: list[UUID]) -> None:
    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.remove_documents(tx, recall_tenant.tenant_id, item_ids)


async def count(recall_tenant: RecallTenant) -> None:
    while (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())).more:
        pass


async def measured(recall_tenant: RecallTenant, query: str) -> list[tuple[str, float]]:
    """The BM25 of each hit, by its content."""
    hits = (await recall_tenant.recall(query, weights={"dense": 0.0, "context": 0.0})).hits
    return sorted(
        (hit.memory.content, component.raw)
        for hit in hits
        for component in hit.components
        if component.signal == "lexical" and component.raw
    )


async def kept(recall_tenant: RecallTenant) -> dict[str, int]:
    async with recall_tenant.service.superuser() as connection:
        rows = await connection.fetch(
            "SELECT term, documents FROM recall.frequencies WHERE tenant_id = $1", recall_tenant.tenant_id
        )
    return {row["term"]: row["documents"] for row in rows}


async def sums(recall_tenant: RecallTenant) -> tuple[int, int]:
    async with recall_tenant.service.superuser() as connection:
        row = await connection.fetchrow(
            "SELECT sum(documents) AS documents, sum(length) AS length FROM recall.corpora WHERE tenant_id = $1",
            recall_tenant.tenant_id,
        )
    assert row is not None
    return int(row["documents"] or 0), int(row["length"] or 0)


async def test_a_few_documents_wait_for_others_to_be_counted_with_them(recall_tenant: RecallTenant) -> None:
    answers = []
    for new in (100, 101, 0):
        await many(recall_tenant, "kettle", new, embedding=np.eye(1, 384, dtype=np.float32)[0])
        answers.append(await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest()))

    assert [answer.active for answer in answers] == [False, True, False]
    assert await sums(recall_tenant) == (201, 201)


async def test_scores_are_the_same_before_and_after_counting(recall_tenant: RecallTenant) -> None:
    for line in LINES:
        await recall_tenant.remember(line, index=False)

    before = await measured(recall_tenant, "tea or coffee?")
    await count(recall_tenant)
    after = await measured(recall_tenant, "tea or coffee?")

    assert len(before) == 3
    assert after == before
    assert (await sums(recall_tenant))[0] == len(LINES)


async def test_what_went_away_is_missing_from_the_counts_at_once(recall_tenant: RecallTenant) -> None:
    for line in LINES:
        await recall_tenant.remember(line, index=False)
    expected = await measured(recall_tenant, "tea or coffee?")
    extra = [UUID(await recall_tenant.remember("tea, tea and tea again", index=False)) for _ in range(3)]
    await count(recall_tenant)
    with_extra = await measured(recall_tenant, "tea or coffee?")

    await forget(recall_tenant, extra)
    before = await measured(recall_tenant, "tea or coffee?")
    await count(recall_tenant)
    after = await measured(recall_tenant, "tea or coffee?")

    assert with_extra != expected
    assert before == expected
    assert after == expected
    assert (await sums(recall_tenant))[0] == len(LINES)


async def test_what_goes_away_uncounted_was_never_there(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember(LINES[0], index=False)
    extra = await many(recall_tenant, "tea", 3)

    await forget(recall_tenant, extra)
    await count(recall_tenant)

    assert await sums(recall_tenant) == (1, 2)


@pytest.mark.system
async def test_several_who_count_at_once_count_each_document_once(recall_tenant: RecallTenant) -> None:
    for _ in range(3):
        await many(recall_tenant, "one two three", 700)

    await asyncio.gather(*(count(recall_tenant) for _ in range(4)))

    assert await sums(recall_tenant) == (2100, 6300)
    frequencies = await kept(recall_tenant)
    assert set(frequencies) == {"one", "two", "three"}
    assert all(2100 - MIN_FREQUENCY <= documents <= 2100 for documents in frequencies.values())


@pytest.mark.system
async def test_the_frequency_of_a_rare_term_is_not_kept(recall_tenant: RecallTenant) -> None:
    await many(recall_tenant, "common", MIN_FREQUENCY)
    await many(recall_tenant, "rare", MIN_FREQUENCY - 1)

    await count(recall_tenant)

    assert await kept(recall_tenant) == {"common": MIN_FREQUENCY}


async def test_a_term_that_no_document_has_any_more_is_not_kept(recall_tenant: RecallTenant) -> None:
    common = await many(recall_tenant, "common", MIN_FREQUENCY)
    await many(recall_tenant, "rare", 1)
    await count(recall_tenant)

    await forget(recall_tenant, common)
    await count(recall_tenant)

    assert await kept(recall_tenant) == {}
    assert await sums(recall_tenant) == (1, 1)


@pytest.mark.system
async def test_a_frequency_follows_what_is_written_and_is_counted_anew_when_much_went_away(
    recall_tenant: RecallTenant,
) -> None:
    first = await many(recall_tenant, "common word", 1400)
    await count(recall_tenant)
    await many(recall_tenant, "common", 100)
    await count(recall_tenant)
    grown = await kept(recall_tenant)

    await forget(recall_tenant, first[:1100])
    await count(recall_tenant)

    assert grown["common"] >= 1500 - MIN_FREQUENCY
    assert await kept(recall_tenant) == {"common": 400, "word": 300}


@pytest.mark.system
async def test_the_terms_of_new_headers_are_counted(recall_tenant: RecallTenant) -> None:
    item_ids = await many(recall_tenant, "kettle", MIN_FREQUENCY)
    await count(recall_tenant)

    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        for item_id in item_ids:
            document = postings.Document(item_id=item_id, kind="memory", text="kettle", header="urgent")
            await postings.update_document(
                tx, recall_tenant.tenant_id, document, has_new_header=True, has_new_session=False
            )
    uncounted = await sums(recall_tenant)
    await count(recall_tenant)

    assert (await kept(recall_tenant))["urgent"] == MIN_FREQUENCY
    assert await sums(recall_tenant) == uncounted == (MIN_FREQUENCY, MIN_FREQUENCY)
