"""What a recall costs and answers where most of what it finds may not be shown, and what stays out of its counts."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import grpc
import numpy as np
import pytest
from fix_cluster import refused

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_recall.index.term_counts import MIN_FREQUENCY
from skein_recall.search import store as reading
from skein_recall.search.store import QueryTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg
    from fix_recall import Place

DIMENSIONS = 384


def pointing(*values: float) -> list[float]:
    """A vector of the model in force."""
    return [*values, *(0.0,) * (DIMENSIONS - len(values))]


async def index_alone(place: Place, texts: Sequence[str]) -> list[UUID]:
    """Write index rows alone, with vectors: their items do not exist."""
    vector = np.array(pointing(0.0, 1.0), dtype=np.float32)
    documents = [postings.Document(item_id=new_id(now()), kind="memory", text=text, embedding=vector) for text in texts]
    async with place.service.memory.transaction(place.tenant_id) as tx:
        await postings.add_documents(tx, place.tenant_id, documents)
    return [document.item_id for document in documents]


async def count(place: Place) -> None:
    while (await place.index.IndexBacklog(pb.IndexBacklogRequest())).more:
        pass


async def counted(place: Place) -> tuple[int, dict[str, int]]:
    async with place.service.superuser() as connection:
        documents = await connection.fetchval(
            "SELECT coalesce(sum(documents), 0)::bigint FROM recall.corpora WHERE tenant_id = $1", place.tenant_id
        )
        rows = await connection.fetch(
            "SELECT term, documents FROM recall.frequencies WHERE tenant_id = $1", place.tenant_id
        )
    return int(documents), {row["term"]: row["documents"] for row in rows}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements' methods, in the order in which searches call them."""
    names: list[str] = []
    for name in ("nearest", "match_terms", "items"):
        method = getattr(QueryTransaction, name)

        async def counting(
            self: QueryTransaction, *given: Any, _name: str = name, _method: Any = method, **named: Any
        ) -> Any:
            names.append(_name)
            return await _method(self, *given, **named)

        monkeypatch.setattr(QueryTransaction, name, counting)
    return names


async def test_hits_that_are_too_far_away_are_not_looked_for_deeper(place: Place, called: list[str]) -> None:
    await place.remember("the kettle is on the stove")
    await index_alone(place, ["something else"] * 250)

    answer = await place.recall("kettle", embedding=pointing(1.0), min_similarity=0.9)

    assert list(answer.hits) == []
    assert called.count("nearest") == 1


async def test_the_items_of_a_deep_search_are_read_in_few_statements(place: Place, called: list[str]) -> None:
    await index_alone(place, ["green tea"] * 700)
    await place.remember("no more than a word about tea, among many others", index=False)

    found = await place.found("green tea", weights={"dense": 0.0, "context": 0.0, "length": 0.0})

    assert found == ["no more than a word about tea, among many others"]
    assert called.count("items") <= 20


async def test_a_filter_is_not_blamed_for_what_is_hidden_anyway(place: Place) -> None:
    await place.remember("green tea", type="note")
    await place.remember("black tea", type="fact")
    notes = memory_pb2.MemoryFilter(types=["note"])

    answer = await place.recall("tea", embedding=pointing(1.0), filter=notes, min_similarity=1.0)

    assert list(answer.hits) == []
    assert not answer.filter_emptied
    assert list(answer.emptied_by) == []


async def test_words_alone_find_as_many_as_there_are_although_a_rare_one_has_few(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "POSTINGS_READ", 5)
    await place.remember("a rare samovar", index=False)
    for number in range(6):
        await place.remember(f"tea number {number}", index=False)

    answer = await place.recall("samovar tea")

    assert len(answer.hits) == 7


async def test_what_has_expired_supersedes_nothing(place: Place) -> None:
    older = await place.remember("Marta lives in Graz")
    newer = await place.remember("Marta lives in Linz", expire_time=now() - timedelta(minutes=1))
    async with place.service.superuser() as connection:
        await connection.execute(
            "INSERT INTO memory.links (tenant_id, link_id, from_memory_id, to_memory_id, relation, weight, "
            "create_time, created_by) VALUES ($1, $2, $3, $4, 'supersedes', 1, now(), 'test')",
            place.tenant_id,
            new_id(now()),
            UUID(newer),
            UUID(older),
        )

    assert await place.found("Where does Marta live?") == ["Marta lives in Graz"]


async def test_a_question_as_long_as_allowed_is_answered(place: Place) -> None:
    await place.remember("the kettle is on the stove")
    words = " ".join(f"word{number} in 1999 on monday" for number in range(1000))

    assert await place.found(f"kettle {words}"[:10_000], limit=100) == ["the kettle is on the stove"]
    assert await place.found("the of and ? !", limit=100) == ["the kettle is on the stove"]


async def test_what_is_counted_while_it_goes_away_is_taken_off_again(place: Place) -> None:
    (item_id,) = await index_alone(place, ["green tea"])

    async with place.service.memory.transaction(place.tenant_id) as tx:
        await postings.subtract_counts(tx, place.tenant_id, [item_id])
        await count(place)
        await tx.execute(postings._QUERIES["delete_documents"], tenant_id=place.tenant_id, item_ids=[item_id])
    await count(place)

    assert (await counted(place))[0] == 0


async def test_messages_that_are_counted_while_their_session_goes_away_are_taken_off_again(place: Place) -> None:
    item_id = UUID(await place.say("green tea", session_id="s1"))

    async with place.service.session.transaction(place.tenant_id) as tx:
        await postings.subtract_session_counts(tx, place.tenant_id, "s1")
        await count(place)
        await tx.execute(postings._QUERIES["delete_documents"], tenant_id=place.tenant_id, item_ids=[item_id])
    await count(place)

    assert (await counted(place))[0] == 0


@pytest.mark.parametrize("name", ["min_similarity", "weights"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
async def test_numbers_that_measure_nothing_are_refused(place: Place, name: str, value: float) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await place.recall("tea", **{name: {"dense": value} if name == "weights" else value})


async def test_a_frequency_has_only_what_was_counted(place: Place) -> None:
    item_ids = await index_alone(place, ["common"] * (MIN_FREQUENCY + 50))
    async with place.service.superuser() as connection, connection.transaction():
        # Counting skips rows that another transaction locks.
        await _hold(connection, place, item_ids[:40])
        await count(place)
    await count(place)

    assert await counted(place) == (MIN_FREQUENCY + 50, {"common": MIN_FREQUENCY + 50})


async def _hold(connection: asyncpg.Connection[asyncpg.Record], place: Place, item_ids: list[UUID]) -> None:
    await connection.execute(
        "SELECT FROM recall.documents WHERE tenant_id = $1 AND item_id = ANY ($2) FOR UPDATE",
        place.tenant_id,
        item_ids,
    )
