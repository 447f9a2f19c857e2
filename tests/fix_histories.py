"""Random histories of a tenant, and answers that are compared: those taken live, and those asked later as of then."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import grpc
from fix_cluster import Tenant
from google.protobuf.field_mask_pb2 import FieldMask
from grpc import aio

from skein.memory.v1 import memory_pb2, scores_pb2
from skein.recall.v1 import recall_pb2 as pb
from skein.session.v1 import session_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now

DIMENSIONS = 384
# Memories, and messages, of a history's beginning.
_FIRST_ITEMS = 12
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

    async def merge(self) -> None:
        """Merge two memories of one type and person; others are refused."""
        kept, merged = self.choice.sample(self.memory_ids, 2)
        request = scores_pb2.MergeMemoriesRequest(memory_ids=[kept, merged])
        try:
            await self.tenant.memory.MergeMemories(request)
        except aio.AioRpcError as error:
            if error.code() not in {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT}:
                raise
        else:
            self.memory_ids.remove(merged)

    async def set_policy(self) -> None:
        """Change how answers are ranked, which every process follows within a second."""
        policy = subjects_pb2.Policy(
            recall_fusion=self.choice.choice(["ranks", "scores"]),
            recall_min_relevance=self.choice.choice([0.0, 0.2]),
        )
        mask = FieldMask(paths=["recall_fusion", "recall_min_relevance"])
        await self.tenant.tenancy.UpdatePolicy(subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask))

    async def begin(self) -> None:
        """Write what the first answers find."""
        for _ in range(_FIRST_ITEMS):
            await self.create()
            await self.say()

    async def go_on(self, count: int, *further: Callable[[], Awaitable[None]]) -> None:
        """Make `count` changes, of `further` kinds as well."""
        kinds = (
            *[self.update] * 6, *[self.create] * 2, *[self.say] * 2, *[self.edit] * 2,
            self.delete, self.undelete, self.supersede, self.unsay, self.title, self.bring_vector, *further,
        )  # fmt: skip
        for _ in range(count):
            await self.choice.choice(kinds)()

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


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A time, and the answers of then to each of QUERIES."""

    at: datetime
    answers: Sequence[pb.RecallResponse]

    @classmethod
    async def take(cls, tenant: Tenant) -> Moment:
        """Ask everything now; nothing may change meanwhile."""
        at = now()
        return cls(at=at, answers=[await recall(tenant, **query) for query in QUERIES])

    async def differences(self, tenant: Tenant) -> list[str]:
        """Ask everything again as of this time; tell what differs from the answers of then."""
        found = []
        for query, answer in zip(QUERIES, self.answers, strict=True):
            again = await recall(tenant, self.at, **query)
            if shown(again) != shown(answer):
                found.append(f"as of {self.at.isoformat()} {query} shows\n{shown(again)}\nand not\n{shown(answer)}")
            elif scores(again) != scores(answer):
                found.append(f"as of {self.at.isoformat()} {query} scores\n{scores(again)}\nand not\n{scores(answer)}")
        return found


def distinct_share(moments: Sequence[Moment]) -> float:
    """Return the share of the answers that are unlike each other: without changes of answers nothing is shown."""
    texts = [answer.SerializeToString(deterministic=True) for moment in moments for answer in moment.answers]
    return len(set(texts)) / len(texts)
