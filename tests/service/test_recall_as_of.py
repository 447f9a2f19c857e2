"""Recall as of a time: it finds, ranks and shows what the same call found, ranked and showed then."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from fix_cluster import refused
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import curation_pb2, memory_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2, states_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now

if TYPE_CHECKING:
    from datetime import datetime

    from fix_cluster import Cluster, Tenant

DIMENSIONS = 384
PEOPLE = ("Marta", "Anton", "Lena", "Juri")
PLACES = ("Graz", "Linz", "Vienna", "Salzburg", "Bregenz")
THINGS = ("green tea", "a red bicycle", "an old piano", "the garden", "two black cats")
TEMPLATES = (
    "{person} lives in {place} and likes {thing}.",
    "{person} moved to {place} last week because of {thing}.",
    "Yesterday {person} sold {thing} at the market of {place}.",
    "Does {person} still want {thing}?",
)
QUERIES: tuple[dict[str, Any], ...] = (
    {"query": "Where does Marta live?"},
    {"query": "green tea in Graz", "limit": 30},
    {"query": "who sold the bicycle last week", "show_superseded": True},
    {"query": "piano garden", "mode": pb.SEARCH_MODE_KEYWORD, "limit": 20},
    {"query": "biycles and pianoo"},
    {"query": "pets at home", "mode": pb.SEARCH_MODE_SEMANTIC, "limit": 20},
    {"query": "tea", "filter": memory_pb2.MemoryFilter(types=["fact"])},
    {"query": "tea", "filter": memory_pb2.MemoryFilter(subject_id="marta"), "mode": pb.SEARCH_MODE_SEMANTIC},
    {"query": "market", "filter": memory_pb2.MemoryFilter(min_importance=0.6), "show_duplicates": True},
    {"query": "cats", "filter": memory_pb2.MemoryFilter(where='importance > 0.3 OR role = "user"')},
    {"query": "garden", "filter": memory_pb2.MemoryFilter(tags_any=["home"])},
    {"query": "cats", "filter": memory_pb2.MemoryFilter(session_id="s1")},
    {"query": "Vienna", "filter": memory_pb2.MemoryFilter(types=["never"])},
)


@dataclass
class History:
    """Changes of one tenant, by a seeded choice."""

    tenant: Tenant
    choice: random.Random
    memory_ids: list[str] = field(default_factory=list)
    deleted_ids: list[str] = field(default_factory=list)
    message_ids: list[str] = field(default_factory=list)

    def text(self) -> str:
        template = self.choice.choice(TEMPLATES)
        return template.format(
            person=self.choice.choice(PEOPLE), place=self.choice.choice(PLACES), thing=self.choice.choice(THINGS)
        )

    def vector(self) -> list[float]:
        return [self.choice.uniform(-1, 1) for _ in range(DIMENSIONS)]

    async def create(self) -> None:
        memory = memory_pb2.Memory(
            content=self.text(),
            type=self.choice.choice(["fact", "note"]),
            subject_id=self.choice.choice(["", "marta", "anton"]),
            importance=self.choice.random(),
            tags=self.choice.sample(["home", "work", "old"], 2),
        )
        self.memory_ids.append((await remember(self.tenant, memory)).memory_id)

    async def update(self) -> None:
        fields: dict[str, Any] = self.choice.choice(
            [
                {"content": self.text()},
                {"title": self.choice.choice(PLACES)},
                {"importance": self.choice.random()},
                {"subject_id": self.choice.choice(["marta", "anton"])},
                {"tags": [self.choice.choice(["home", "work", "old"])]},
            ]
        )
        await change(self.tenant, self.choice.choice(self.memory_ids), **fields)

    async def delete(self) -> None:
        memory_id = self.memory_ids.pop(self.choice.randrange(len(self.memory_ids)))
        self.deleted_ids.append(memory_id)
        await self.tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory_id))

    async def undelete(self) -> None:
        if self.deleted_ids:
            memory_id = self.deleted_ids.pop()
            await self.tenant.memory.UndeleteMemory(memory_pb2.UndeleteMemoryRequest(memory_id=memory_id))
            self.memory_ids.append(memory_id)

    async def supersede(self) -> None:
        older, newer = sorted(self.choice.sample(self.memory_ids, 2))
        link = memory_pb2.Link(from_memory_id=newer, to_memory_id=older, relation="supersedes")
        await self.tenant.links.UpsertLink(memory_pb2.UpsertLinkRequest(link=link))

    async def say(self) -> None:
        message = session_pb2.Message(role=session_pb2.MESSAGE_ROLE_USER, content=self.text())
        request = session_pb2.AppendMessagesRequest(
            session_id=self.choice.choice(["s1", "s2"]), messages=[message], create_session=True
        )
        self.message_ids += [said.message_id for said in (await self.tenant.sessions.AppendMessages(request)).messages]

    async def edit(self) -> None:
        message = session_pb2.Message(message_id=self.choice.choice(self.message_ids), content=self.text())
        request = session_pb2.UpdateMessageRequest(message=message, update_mask=FieldMask(paths=["content"]))
        await self.tenant.sessions.UpdateMessage(request)

    async def unsay(self) -> None:
        message_id = self.message_ids.pop(self.choice.randrange(len(self.message_ids)))
        await self.tenant.sessions.DeleteMessage(session_pb2.DeleteMessageRequest(message_id=message_id))

    async def title(self) -> None:
        session = session_pb2.Session(session_id=self.choice.choice(["s1", "s2"]), title=self.choice.choice(PLACES))
        request = session_pb2.UpdateSessionRequest(session=session, update_mask=FieldMask(paths=["title"]))
        await self.tenant.sessions.UpdateSession(request)

    async def bring_vector(self) -> None:
        request = pb.PutEmbeddingRequest(
            item_id=self.choice.choice(self.memory_ids),
            model="all-minilm-l6-v2",
            provider="test",
            embeddings=[pb.Embedding(values=self.vector())],
        )
        await self.tenant.recall.PutEmbedding(request)


async def remember(tenant: Tenant, memory: memory_pb2.Memory) -> memory_pb2.Memory:
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory


async def change(tenant: Tenant, memory_id: str, **fields: Any) -> None:
    memory = memory_pb2.Memory(memory_id=memory_id, **fields)
    request = memory_pb2.UpdateMemoryRequest(memory=memory, update_mask=FieldMask(paths=list(fields)))
    await tenant.memory.UpdateMemory(request)


async def drain(tenant: Tenant) -> None:
    """Wait until every item has its vectors."""
    async with asyncio.timeout(60):
        while (await recall(tenant, query="anything", limit=1)).pending_embedding_count:
            pass


async def recall(tenant: Tenant, as_of: datetime | None = None, **request: Any) -> pb.RecallResponse:
    asked = pb.RecallRequest(**request)
    if as_of is not None:
        asked.as_of_time.FromDatetime(as_of)
    return await tenant.recall.Recall(asked)


async def contents(tenant: Tenant, as_of: datetime | None = None, **request: Any) -> list[str]:
    return [hit.memory.content or hit.message.content for hit in (await recall(tenant, as_of, **request)).hits]


def shown(response: pb.RecallResponse) -> list[Any]:
    """What a response shows, without scores."""
    return [
        *(
            (hit.kind, hit.item_id, hit.memory, hit.message, list(hit.duplicate_ids), hit.has_query_words)
            for hit in response.hits
        ),
        list(response.query_expansions),
        (response.formula, response.model, response.nothing_relevant, response.pending_embedding_count),
        (response.filter_emptied, sorted(response.emptied_by)),
    ]


def scores(response: pb.RecallResponse) -> list[list[float]]:
    return [
        [hit.score, hit.similarity, hit.relevance, hit.trust, *itertools.chain(*map(numbers, hit.components))]
        for hit in response.hits
    ]


def numbers(component: pb.ScoreComponent) -> tuple[float, ...]:
    return component.raw, component.value, component.weight


@pytest.mark.parametrize("seed", [1, 2])
async def test_it_answers_as_the_same_call_answered_then(tenant: Tenant, seed: int) -> None:
    history = History(tenant, random.Random(seed))
    for _ in range(12):
        await history.create()
        await history.say()
    steps = (
        *[history.update] * 6, *[history.create] * 2, *[history.say] * 2, *[history.edit] * 2,
        history.delete, history.undelete, history.supersede, history.unsay, history.title, history.bring_vector,
    )  # fmt: skip
    then: list[tuple[datetime, list[pb.RecallResponse]]] = []
    for _ in range(6):
        for _ in range(8):
            await history.choice.choice(steps)()
        await drain(tenant)
        at = now()
        then.append((at, [await recall(tenant, **query) for query in QUERIES]))

    for _ in range(20):
        await history.choice.choice(steps)()

    distinct = {answer.SerializeToString(deterministic=True) for _, answers in then for answer in answers}
    assert len(distinct) > len(then) * len(QUERIES) / 2, "the changes change answers"
    for at, answers in then:
        for query, answer in zip(QUERIES, answers, strict=True):
            again = await recall(tenant, at, **query)
            assert shown(again) == shown(answer), (at, query)
            for scores_again, scores_then in zip(scores(again), scores(answer), strict=True):
                assert scores_again == pytest.approx(scores_then, abs=1e-4), (at, query)


async def test_a_changed_text_is_found_and_shown_in_its_former_words(tenant: Tenant) -> None:
    memory = await remember(tenant, memory_pb2.Memory(content="Marta lives in Graz.", title="Home"))
    (shown_then,) = (await recall(tenant, query="Graz", mode=pb.SEARCH_MODE_KEYWORD)).hits
    before = now()
    await change(tenant, memory.memory_id, content="Marta lives in Linz.", title="Residence")

    (hit,) = (await recall(tenant, before, query="Graz", mode=pb.SEARCH_MODE_KEYWORD)).hits
    by_title = await contents(tenant, before, query="home", mode=pb.SEARCH_MODE_KEYWORD)

    assert hit == shown_then
    assert by_title == ["Marta lives in Graz."]
    assert await contents(tenant, before, query="Linz residence", mode=pb.SEARCH_MODE_KEYWORD) == []
    assert await contents(tenant, query="Graz home", mode=pb.SEARCH_MODE_KEYWORD) == []


async def test_a_new_title_alone_leaves_the_former_one_to_the_past(tenant: Tenant) -> None:
    memory = await remember(tenant, memory_pb2.Memory(content="Marta lives in Graz.", title="Home"))
    before = now()
    await change(tenant, memory.memory_id, title="Residence")
    between = now()
    await change(tenant, memory.memory_id, title="Flat")

    found = {
        word: [
            bool(await contents(tenant, at, query=word, mode=pb.SEARCH_MODE_KEYWORD)) for at in (before, between, None)
        ]
        for word in ("home", "residence", "flat")
    }

    assert found == {
        "home": [True, False, False], "residence": [False, True, False], "flat": [False, False, True],
    }  # fmt: skip


async def test_a_deleted_memory_and_a_deleted_message_are_found_as_of_before(tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    await history.create()
    await history.say()
    await drain(tenant)
    before = now()
    there = await contents(tenant, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC)
    await history.delete()
    await history.unsay()

    assert await contents(tenant, before, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC) == there
    assert len(there) == 2
    assert await contents(tenant, query="Marta", mode=pb.SEARCH_MODE_SEMANTIC) == []


async def test_a_pending_item_is_pending_as_of_then(tenant: Tenant) -> None:
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[memory_pb2.Memory(content=f"Marta owns {number} cats.") for number in range(3)], defer_embedding=True
    )
    await tenant.memory.BatchCreateMemories(request)
    before = now()
    pending = (await recall(tenant, before, query="cats")).pending_embedding_count
    await drain(tenant)

    later = await recall(tenant, before, query="cats")

    assert later.pending_embedding_count == pending
    assert (await recall(tenant, now(), query="cats")).pending_embedding_count == 0


async def test_purged_items_are_never_found_again(cluster: Cluster, tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    await history.create()
    await history.say()
    (memory_id,), (message_id,) = history.memory_ids, history.message_ids
    await change(tenant, memory_id, content="Marta hides a purple umbrella.", title="Secret")
    edited = session_pb2.Message(message_id=message_id, content="Marta hides a purple umbrella.")
    await tenant.sessions.UpdateMessage(
        session_pb2.UpdateMessageRequest(message=edited, update_mask=FieldMask(paths=["content"]))
    )
    await drain(tenant)
    before = now()
    for _ in range(3):
        await history.update()
        await history.edit()
    assert len(await contents(tenant, before, query="purple umbrella")) == 2

    selection = memory_pb2.MemorySelection(memory_ids=[memory_id])
    await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))
    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message_id]))

    for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC):
        assert await contents(tenant, before, query="purple umbrella", mode=mode) == []
    assert await former_rows(cluster, tenant) == [0, 0, 0]


async def test_a_purged_person_is_not_found_in_former_versions_of_memories_about_others(
    cluster: Cluster, tenant: Tenant
) -> None:
    anna = memory_pb2.MemoryFilter(subject_id="anna")
    memory = await remember(tenant, memory_pb2.Memory(content="Juri has two black cats.", subject_id="juri"))
    text = "Anna hides a purple umbrella."
    await change(tenant, memory.memory_id, content=text, subject_id="anna")
    await drain(tenant)
    before = now()
    await change(tenant, memory.memory_id, content="Marta likes green tea.", subject_id="marta")
    assert await contents(tenant, before, query="purple umbrella", filter=anna) == [text]

    selection = memory_pb2.MemorySelection(filter=anna)
    purged = await tenant.memory.PurgeMemories(memory_pb2.PurgeMemoriesRequest(selection=selection))

    assert purged.receipt.deleted_counts["memory.versions"] == 1
    for mode in (pb.SEARCH_MODE_HYBRID, pb.SEARCH_MODE_KEYWORD, pb.SEARCH_MODE_SEMANTIC):
        assert await contents(tenant, before, query="purple umbrella", mode=mode) == []
    assert await former_rows(cluster, tenant) == [0, 0, 0]
    then = memory_pb2.GetMemoryRequest(memory_id=memory.memory_id)
    then.as_of_time.FromDatetime(before)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.GetMemory(then)
    assert await contents(tenant, query="green tea") == ["Marta likes green tea."]


async def test_a_purged_session_leaves_no_former_rows_in_the_index(cluster: Cluster, tenant: Tenant) -> None:
    history = History(tenant, random.Random(1))
    for _ in range(4):
        await history.say()
        await history.edit()
    await drain(tenant)
    await history.edit()
    await history.unsay()

    for session_id in ("s1", "s2"):
        await tenant.sessions.PurgeSession(states_pb2.PurgeSessionRequest(session_id=session_id))

    assert await former_rows(cluster, tenant) == [0, 0, 0]


async def former_rows(cluster: Cluster, tenant: Tenant) -> list[int]:
    """Count the former documents, postings and vectors."""
    async with cluster.superuser() as connection:
        return [
            await connection.fetchval(
                f"SELECT count(*) FROM recall.{table}_history WHERE tenant_id = $1",  # noqa: S608 - our names.
                tenant.tenant_id,
            )
            for table in ("documents", "postings", "embeddings_all_minilm_l6_v2")
        ]


async def test_expiry_is_judged_as_of_then(tenant: Tenant) -> None:
    memory = memory_pb2.Memory(content="Marta is on holiday.")
    expire_time = now() + timedelta(seconds=1)
    memory.expire_time.FromDatetime(expire_time)
    await remember(tenant, memory)
    before = now()
    async with asyncio.timeout(30):
        while await contents(tenant, query="holiday", mode=pb.SEARCH_MODE_KEYWORD):
            pass

    assert await contents(tenant, before, query="holiday", mode=pb.SEARCH_MODE_KEYWORD) == ["Marta is on holiday."]


async def test_a_name_is_read_as_its_aliases_of_then_and_policies_of_then_decide(tenant: Tenant) -> None:
    for note in ("GHA got slower after the upgrade.", "The dishwasher is broken."):
        await remember(tenant, memory_pb2.Memory(content=note))
    alias, canonical = [
        (await remember(tenant, memory_pb2.Memory(content="an entity", title=title, type="entity"))).memory_id
        for title in ("GHA", "GitHub Actions")
    ]
    before = now()
    await tenant.curation.ResolveEntity(
        curation_pb2.ResolveEntityRequest(alias_memory_id=alias, canonical_memory_id=canonical)
    )
    with_alias = now()
    await tenant.curation.DeleteAlias(curation_pb2.DeleteAliasRequest(alias_memory_id=alias))
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(recall_fusion="ranks"), update_mask=FieldMask(paths=["recall_fusion"])
        )
    )
    after = now()

    answers = [await recall(tenant, at, query="How fast is GitHub Actions?") for at in (before, with_alias, after)]

    assert [[one.read_as for one in answer.query_expansions] for answer in answers] == [[], ["GHA"], []]
    assert [answer.formula.partition("-")[0] for answer in answers] == ["scores", "scores", "ranks"]


async def test_a_time_in_the_future_and_one_before_the_tenant_are_refused(tenant: Tenant) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"):
        await recall(tenant, now() + timedelta(hours=1), query="tea")
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "NOT_KNOWN_THEN"):
        await recall(tenant, now() - timedelta(days=400), query="tea")
