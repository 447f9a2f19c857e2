"""What a recall costs and answers where most of what it finds may not be shown, and what stays out of its counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import grpc
import numpy as np
import pytest
from fix_cluster import refused
from fix_recall import RecallTenant

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_recall.index.term_counts import MIN_FREQUENCY
from skein_recall.search import query_terms as reading
from skein_recall.search.store import QueryTransaction

DIMENSIONS = 384


def pointing(*values: float) -> list[float]:
    """A vector of the model in force."""
    return [*values, *(0.0,) * (DIMENSIONS - len(values))]


async def index_alone(recall_tenant: RecallTenant, texts: Sequence[str]) -> list[UUID]:
    """Write index rows alone, with vectors: their items do not exist."""
    vector = np.array(pointing(0.0, 1.0), dtype=np.float32)
    documents = [postings.Document(item_id=new_id(now()), kind="memory", text=text, embedding=vector) for text in texts]
    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.add_documents(tx, recall_tenant.tenant_id, documents)
    return [document.item_id for document in documents]


async def count(recall_tenant: RecallTenant) -> None:
    while (await recall_tenant.index.IndexBacklog(pb.IndexBacklogRequest())).more:
        pass


async def counted(recall_tenant: RecallTenant) -> tuple[int, dict[str, int]]:
    async with recall_tenant.service.superuser() as connection:
        documents = await connection.fetchval(
            "SELECT coalesce(sum(documents), 0)::bigint FROM recall.corpora WHERE tenant_id = $1",
            recall_tenant.tenant_id,
        )
        rows = await connection.fetch(
            "SELECT term, documents FROM recall.frequencies WHERE tenant_id = $1", recall_tenant.tenant_id
        )
    return int(documents), {row["term"]: row["documents"] for row in rows}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements' methods, in the order in which searches call them."""
    names: list[str] = []
    for name in ("nearest", "match_terms", "items"):
        method = getattr(QueryTransaction, name)

        async def counting(
            self: QueryTransaction, *arguments: Any, _name: str = name, _method: Any = method, **named: Any
        ) -> Any:
            names.append(_name)
            return await _method(self, *arguments, **named)

        monkeypatch.setattr(QueryTransaction, name, counting)
    return names


async def test_hits_that_are_too_far_away_are_not_looked_for_deeper(
    recall_tenant: RecallTenant, called: list[str]
) -> None:
    await recall_tenant.remember("the kettle is on the stove")
    await index_alone(recall_tenant, ["something else"] * 250)

    answer = await recall_tenant.recall("kettle", embedding=pointing(1.0), min_similarity=0.9)

    assert list(answer.hits) == []
    assert called.count("nearest") == 1


@pytest.mark.system
async def test_the_items_of_a_deep_search_are_read_in_few_statements(
    recall_tenant: RecallTenant, called: list[str]
) -> None:
    await index_alone(recall_tenant, ["green tea"] * 700)
    await recall_tenant.remember("no more than a word about tea, among many others", index=False)

    result = await recall_tenant.contents("green tea", weights={"dense": 0.0, "context": 0.0, "length": 0.0})

    assert result == ["no more than a word about tea, among many others"]
    assert called.count("items") <= 20


async def test_a_filter_is_not_blamed_for_what_is_hidden_anyway(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("green tea", type="note")
    await recall_tenant.remember("black tea", type="fact")
    notes = memory_pb2.MemoryFilter(types=["note"])

    answer = await recall_tenant.recall("tea", embedding=pointing(1.0), filter=notes, min_similarity=1.0)

    assert list(answer.hits) == []
    assert not answer.filter_emptied
    assert list(answer.emptied_by) == []


async def test_words_alone_find_as_many_as_there_are_although_a_rare_one_has_few(
    recall_tenant: RecallTenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "POSTINGS_READ", 5)
    await recall_tenant.remember("a rare samovar", index=False)
    for number in range(6):
        await recall_tenant.remember(f"tea number {number}", index=False)

    answer = await recall_tenant.recall("samovar tea")

    assert len(answer.hits) == 7


async def test_an_expired_memory_supersedes_nothing(recall_tenant: RecallTenant) -> None:
    older = await recall_tenant.remember("Marta lives in Graz")
    newer = await recall_tenant.remember("Marta lives in Linz", expire_time=now() - timedelta(minutes=1))
    async with recall_tenant.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO memory.links (tenant_id, link_id, from_memory_id, to_memory_id, relation, weight, "
            "create_time, created_by, author_keys) "
            "VALUES ($1, $2, $3, $4, 'supersedes', 1, now(), 'test', ARRAY['test'])",
            recall_tenant.tenant_id,
            new_id(now()),
            UUID(newer),
            UUID(older),
        )

    assert await recall_tenant.contents("Where does Marta live?") == ["Marta lives in Graz"]


@pytest.mark.system
async def test_a_question_as_long_as_allowed_is_answered(recall_tenant: RecallTenant) -> None:
    await recall_tenant.remember("the kettle is on the stove")
    words = " ".join(f"word{number} in 1999 on monday" for number in range(1000))

    assert await recall_tenant.contents(f"kettle {words}"[:10_000], limit=100) == ["the kettle is on the stove"]
    assert await recall_tenant.contents("the of and ? !", limit=100) == ["the kettle is on the stove"]


async def test_a_document_counted_while_it_is_removed_is_subtracted_again(recall_tenant: RecallTenant) -> None:
    (item_id,) = await index_alone(recall_tenant, ["green tea"])

    async with recall_tenant.service.memory.transaction(recall_tenant.tenant_id) as tx:
        await postings.subtract_counts(tx, recall_tenant.tenant_id, [item_id])
        await count(recall_tenant)
        await tx.execute(postings._QUERIES["delete_documents"], tenant_id=recall_tenant.tenant_id, item_ids=[item_id])
    await count(recall_tenant)

    assert (await counted(recall_tenant))[0] == 0


async def test_messages_that_are_counted_while_their_session_goes_away_are_taken_off_again(
    recall_tenant: RecallTenant,
) -> None:
    item_id = UUID(await recall_tenant.say("green tea", session_id="s1"))

    async with recall_tenant.service.session.transaction(recall_tenant.tenant_id) as tx:
        await postings.subtract_session_counts(tx, recall_tenant.tenant_id, "s1")
        await count(recall_tenant)
        await tx.execute(postings._QUERIES["delete_documents"], tenant_id=recall_tenant.tenant_id, item_ids=[item_id])
    await count(recall_tenant)

    assert (await counted(recall_tenant))[0] == 0


@pytest.mark.parametrize("name", ["min_similarity", "weights"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
async def test_numbers_that_measure_nothing_are_refused(recall_tenant: RecallTenant, name: str, value: float) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall_tenant.recall("tea", **{name: {"dense": value} if name == "weights" else value})


async def test_a_frequency_has_only_what_was_counted(recall_tenant: RecallTenant) -> None:
    item_ids = await index_alone(recall_tenant, ["common"] * (MIN_FREQUENCY + 50))
    async with recall_tenant.service.superuser() as connection, connection.transaction():
        # Counting skips rows that another transaction locks.
        await _hold(connection, recall_tenant, item_ids[:40])
        await count(recall_tenant)
    await count(recall_tenant)

    assert await counted(recall_tenant) == (MIN_FREQUENCY + 50, {"common": MIN_FREQUENCY + 50})


async def _hold(
    connection: asyncpg.Connection[asyncpg.Record], recall_tenant: RecallTenant, item_ids: list[UUID]
) -> None:
    await connection.execute(
        "SELECT FROM recall.documents WHERE tenant_id = $1 AND item_id = ANY ($2) FOR UPDATE",
        recall_tenant.tenant_id,
        item_ids,
    )
