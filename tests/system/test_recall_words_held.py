"""Words in memory are found and ranked as in the database, for every tenant, at any moment."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from bench import dialogues
from fix_database import TestDatabase
from fix_recall import RecallServer, RecallTenant, serving
from prometheus_client import REGISTRY

from skein.recall.v1 import recall_pb2 as pb
from skein_kit.database.named_queries import Query
from skein_kit.database.transactions import Database
from skein_kit.ids import new_id, now
from skein_kit.search_text import postings
from skein_kit.search_text.vector_columns import prepare_connection
from skein_recall.term_cache.cache import TermCache
from skein_recall.term_cache.store import TermCacheStore
from skein_recall.vector_cache.store import VectorCacheStore

POPULATION = dialogues.population(tenants=1, entries=60, questions=12, seed=3)
TEXTS, QUESTIONS = POPULATION.tenants[0], [question.text for question in POPULATION.questions]
OTHERS = ["Which hobbies are there?", "the a of", 'zebras, "quoted" and http://example.org/some/path', "pottery"]


def searches(path: str) -> float:
    return REGISTRY.get_sample_value("skein_recall_word_searches_total", {"path": path}) or 0.0


@dataclass(frozen=True)
class TwoServers:
    """A tenant that two servers search: one that holds words and vectors, and one that holds nothing."""

    holding: RecallTenant
    plain: RecallTenant

    async def compare(self, queries: Sequence[str], **request: Any) -> None:
        """Expect the same of both."""
        for query in queries:
            held, plain = [await tenant.recall(query, **request) for tenant in (self.holding, self.plain)]
            self.compare_one(query, held, plain)

    def compare_one(self, query: str, held: pb.RecallResponse, plain: pb.RecallResponse) -> None:
        """Expect the same of two answers, to the bit."""
        assert summary(held) == summary(plain), query
        assert [numbers(hit) for hit in held.hits] == [numbers(hit) for hit in plain.hits], query

    async def ask_until_held(self, query: str = "pottery", **request: Any) -> pb.RecallResponse:
        """Return the first answer for which the words in memory were searched."""
        async with asyncio.timeout(60):
            before = searches("cached")
            answer = await self.holding.recall(query, **request)
            while searches("cached") == before:
                await asyncio.sleep(0.01)
                answer = await self.holding.recall(query, **request)
        return answer

    async def compare_now_and_later(self, **request: Any) -> None:
        """Expect the same at once, whatever is held, and once words are held again."""
        await self.compare(QUESTIONS[:4], **request)
        for question in QUESTIONS:
            held = await self.ask_until_held(question, **request)
            self.compare_one(question, held, await self.plain.recall(question, **request))


def summary(response: pb.RecallResponse) -> list[Any]:
    hits = [
        (
            hit.item_id,
            list(hit.duplicate_ids),
            [(each.signal, each.rank) for each in hit.components],
            hit.has_query_words,
        )
        for hit in response.hits
    ]
    return [hits, response.formula, response.nothing_relevant, list(map(str, response.query_expansions))]


def numbers(hit: pb.Hit) -> list[float]:
    components = [number for each in hit.components for number in (each.raw, each.value, each.weight)]
    return [hit.score, hit.similarity, hit.relevance, *components]


@pytest.fixture(scope="module")
async def plain_server(recall_server: RecallServer) -> AsyncIterator[RecallServer]:
    """Search the same database without holding anything."""
    async with serving(recall_server.url, recall_server.key, SKEIN_RECALL_CACHE_MEGABYTES="0") as server:
        yield server


@pytest.fixture
async def servers(recall_server: RecallServer, plain_server: RecallServer) -> TwoServers:
    """Fill a tenant with talks of ten turns each, memories among them, and another tenant as well."""
    tenant, stranger = await recall_server.new_tenant(), await recall_server.new_tenant()
    for number, text in enumerate(TEXTS):
        if number % 3:
            await tenant.say(text, session_id=f"s{number // 10}")
        else:
            session_id = f"s{number // 10}" if number % 2 else None
            await tenant.remember(text, session_id=session_id, title="Notes on pottery" if number % 9 == 0 else None)
    await stranger.say("I won a small prize for pottery in Kyoto.")
    return TwoServers(tenant, RecallTenant(plain_server, tenant.tenant_id))


async def changed(tenant: RecallTenant, item_id: str, text: str, header: str | None = None) -> None:
    """Give a memory other words: in its text, or only in its header."""
    document = postings.Document(item_id=uuid.UUID(item_id), kind="memory", text=text, header=header or "", revision=2)
    async with tenant.service.memory.transaction(tenant.tenant_id) as tx:
        if header is None:
            await postings.remove_documents(tx, tenant.tenant_id, [document.item_id])
            await postings.add_documents(tx, tenant.tenant_id, [document])
        else:
            await postings.update_document(tx, tenant.tenant_id, document, has_new_header=True, has_new_session=False)


async def removed(tenant: RecallTenant, *item_ids: str) -> None:
    async with tenant.service.memory.transaction(tenant.tenant_id) as tx:
        await postings.remove_documents(tx, tenant.tenant_id, list(map(uuid.UUID, item_ids)))


async def test_they_are_found_and_ranked_as_in_the_database(servers: TwoServers) -> None:
    await servers.ask_until_held()
    before = searches("cached")

    await servers.compare([*QUESTIONS, *OTHERS])
    await servers.compare(QUESTIONS, kinds=[pb.ITEM_KIND_MESSAGE])
    await servers.compare(QUESTIONS, kinds=[pb.ITEM_KIND_MEMORY], limit=30)
    await servers.compare(QUESTIONS, fusion="ranks")

    assert searches("cached") >= before + 4 * len(QUESTIONS)


async def test_on_citus_they_are_proved_by_the_server_that_numbers_transactions(
    recall_server: RecallServer, servers: TwoServers
) -> None:
    async with serving(recall_server.url, recall_server.key, SKEIN_DATABASE_CITUS="true") as server:
        both = TwoServers(RecallTenant(server, servers.holding.tenant_id), servers.plain)
        await both.ask_until_held()
        before = searches("cached")

        await both.compare(QUESTIONS)
        await both.holding.say("I told you that the old harbour has a lighthouse.", session_id="s1")
        await both.compare(["Where is the lighthouse?"])

        assert searches("cached") == before + len(QUESTIONS) + 1


@pytest.mark.essential
async def test_what_is_written_later_is_found_at_once(servers: TwoServers) -> None:
    await servers.ask_until_held()
    before = searches("cached")

    for number, question in enumerate(QUESTIONS[:4]):
        await servers.holding.say(f"{question} I told you, it was pottery.", session_id=f"s{number}")
        await servers.holding.remember(f"About {question}", session_id="new", index=number % 2 == 0)
        await servers.compare(QUESTIONS)

    assert searches("cached") == before + 4 * len(QUESTIONS)


async def test_a_text_or_a_header_that_changed_is_found_by_its_new_words(servers: TwoServers) -> None:
    item_id = await servers.holding.remember("I gave up rowing for good.", session_id="s1")
    await servers.ask_until_held("rowing")

    await changed(servers.holding, item_id, "I started a group for falconry.")
    await servers.compare(["Who started with falconry?", "Who gave up rowing?", *QUESTIONS[:3]])
    await changed(servers.holding, item_id, "I started a group for falconry.", header="Hawks and eagles")
    await servers.compare(["Any hawks?", "Who started with falconry?", *QUESTIONS[:3]])

    await servers.compare_now_and_later()


async def test_what_was_removed_is_not_found_and_no_neighbour_any_more(servers: TwoServers) -> None:
    item_ids = [
        await servers.holding.remember(f"{speaker} asks about the old harbour, is that so?", session_id="s2")
        for speaker in ("Alva", "Bruno", "Carmen")
    ]
    await servers.ask_until_held("harbour")

    await removed(servers.holding, item_ids[1])
    await servers.compare(["Who asks about the harbour?"])
    await servers.compare_now_and_later()
    await removed(servers.holding, item_ids[0], item_ids[2])
    await servers.compare(["Who asks about the harbour?"])
    await servers.compare_now_and_later()


async def test_the_title_of_a_session_counts_as_it_is_now(servers: TwoServers) -> None:
    await servers.ask_until_held()

    async with servers.holding.service.session.transaction(servers.holding.tenant_id) as tx:
        insert = Query.parse("title", "INSERT INTO session.title_terms VALUES (:tenant_id, :term, :session_id)")
        for session_id in ("s1", "s3"):
            await tx.execute(insert, tenant_id=servers.holding.tenant_id, term="potteri", session_id=session_id)

    await servers.compare(["Who spoke of pottery?", *QUESTIONS])


async def test_many_changes_at_once_are_found(servers: TwoServers) -> None:
    await servers.ask_until_held()
    documents = [
        postings.Document(
            item_id=new_id(now()),
            kind="message",
            text=f"{TEXTS[number % len(TEXTS)]} {number}",
            session_id="s5",
        )
        for number in range(600)
    ]

    async with servers.holding.service.session.transaction(servers.holding.tenant_id) as tx:
        await postings.add_documents(tx, servers.holding.tenant_id, documents)

    await servers.compare_now_and_later()


async def test_a_dropped_tenant_is_read_again_and_no_more_is_held_than_allowed(database: TestDatabase) -> None:
    tenants = [uuid.uuid4(), uuid.uuid4()]
    async with database.superuser() as connection:
        await connection.execute("SET session_replication_role = replica")
        for tenant_id in tenants:
            await connection.executemany(
                "INSERT INTO recall.documents (tenant_id, item_id, kind, length, revision) "
                "VALUES ($1, $2, 'memory', 1, 1)",
                [(tenant_id, uuid.uuid4()) for _ in range(200)],
            )
    async with Database.open(database.url, service="recall", size=2, timeout=30.0, init=prepare_connection) as pool:
        cache = TermCache(TermCacheStore(pool), VectorCacheStore(pool), max_bytes=150_000)
        running = asyncio.create_task(cache.run())

        async with asyncio.timeout(30):
            while cache.table(tenants[0]) is None:
                await asyncio.sleep(0.01)
        for _ in range(20):
            cache.table(tenants[1])
            await asyncio.sleep(0.01)
        held = cache.byte_size
        cache.drop(tenants[0])

        assert 0 < held <= 150_000
        assert cache.byte_size == 0
        async with asyncio.timeout(30):
            while cache.table(tenants[1]) is None and cache.table(tenants[0]) is None:
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
