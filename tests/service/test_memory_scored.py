"""Scores as memories show them, as they are explained, and what raises and lowers them."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.memory.v1 import scores_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_kit.ids import now

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

DAY = timedelta(days=1)


async def create(tenant: Tenant, **fields: Any) -> pb.Memory:
    request = pb.CreateMemoryRequest(memory=pb.Memory(**{"content": "tea", **fields}))
    return (await tenant.memory.CreateMemory(request)).memory


async def stored(connection: Connection, tenant: Tenant, memory_id: str) -> asyncpg.Record:
    """Look at a memory without using it: one that was read is not idle."""
    row = await connection.fetchrow(
        "SELECT importance, confidence, revision, update_time, updated_by FROM memory.memories"
        " WHERE tenant_id = $1 AND memory_id = $2",
        tenant.tenant_id,
        UUID(memory_id),
    )
    assert row is not None
    return row


async def link(tenant: Tenant, start: str, end: str, relation: str) -> None:
    link = pb.Link(from_memory_id=start, to_memory_id=end, relation=relation)
    await tenant.links.CreateLink(pb.CreateLinkRequest(link=link))


async def explain(tenant: Tenant, memory_id: str, **fields: Any) -> scores_pb2.ExplainScoreResponse:
    return await tenant.memory.ExplainScore(scores_pb2.ExplainScoreRequest(memory_id=memory_id, **fields))


def values(terms: Any) -> dict[str, float]:
    return {term.name: term.value for term in terms}


async def aged(connection: Connection, tenant: Tenant, days: int) -> None:
    """Let the tenant's memories have been stored so many days ago."""
    await connection.execute(
        "UPDATE memory.memories SET update_time = update_time - $2::interval, decay_time = decay_time - $2::interval"
        " WHERE tenant_id = $1",
        tenant.tenant_id,
        days * DAY,
    )


async def used(connection: Connection, tenant: Tenant, memory_id: str, count: int, days: int) -> None:
    await connection.execute(
        "INSERT INTO memory.access_counts (tenant_id, memory_id, access_count, last_access_time)"
        " VALUES ($1, $2, $3, $4)"
        " ON CONFLICT (tenant_id, memory_id) DO UPDATE SET access_count = $3, last_access_time = $4",
        tenant.tenant_id,
        UUID(memory_id),
        count,
        now() - days * DAY,
    )


async def uses_of(connection: Connection, tenant: Tenant, memory_id: str) -> list[Any]:
    """Look how often a memory was used, and when last."""
    return await connection.fetch(
        "SELECT access_count, last_access_time FROM memory.access_counts WHERE tenant_id = $1 AND memory_id = $2",
        tenant.tenant_id,
        UUID(memory_id),
    )


async def test_every_read_shows_the_same_scores(tenant: Tenant) -> None:
    created = await create(tenant, content="A verified plan", type="fact", source="api")
    changed = await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=created.memory_id, title="plan"), update_mask=FieldMask(paths=["title"])
        )
    )
    # At once, because each read counts as a use a little later.
    one, batch, listed = await asyncio.gather(
        tenant.get_memory(created.memory_id),
        tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=[created.memory_id])),
        tenant.memory.ListMemories(pb.ListMemoriesRequest()),
    )

    scores = created.scores
    assert (scores.confidence, scores.importance) == (0.91, 0.685)
    assert (scores.formula, scores.version) == ("memoryvault-dynamic", 2)
    assert one.scores == scores
    assert batch.memories[0].scores == listed.memories[0].scores == changed.memory.scores == scores
    # Its own confidence and importance are what was given.
    assert (created.confidence, created.importance) == (0.7, 0.5)


@pytest.mark.system
async def test_an_explanation_agrees_with_what_is_read_at_the_same_moment(
    tenant: Tenant, connection: Connection
) -> None:
    made = [await create(tenant, content=f"maybe a task {number}", source="rumor") for number in range(4)]
    ids = [one.memory_id for one in made]
    await link(tenant, ids[1], ids[0], "supports")
    await link(tenant, ids[0], ids[2], "contradicts")
    await link(tenant, ids[3], ids[0], "example_of")
    await aged(connection, tenant, 40)
    await used(connection, tenant, ids[0], 5, 1)

    for memory_id in ids:
        uses = None
        # What was read counts as a use a little later: where that comes in between, both are asked for again.
        while uses is None or await uses_of(connection, tenant, memory_id) != uses:
            uses = await uses_of(connection, tenant, memory_id)
            answer = await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id))
            explained = await explain(tenant, memory_id, read_time=answer.read_time)
        assert explained.scores == answer.memory.scores
        assert explained.read_time == answer.read_time
        for terms, score in (
            (explained.confidence_components, answer.memory.scores.confidence),
            (explained.importance_components, answer.memory.scores.importance),
        ):
            assert math.isclose(math.fsum(values(terms).values()), score, abs_tol=0.000_501)

    shown = await tenant.get_memory(ids[0])
    assert shown.access_count >= 5
    assert shown.HasField("last_access_time")


async def test_a_moment_can_be_explained_that_is_not_now(tenant: Tenant) -> None:
    created = await create(tenant)
    later = created.update_time
    later.seconds += 400 * 86400

    then = await explain(tenant, created.memory_id, read_time=later)

    assert values(then.confidence_components)["stale"] == pytest.approx(-400 / 365 * 0.16, abs=0.001)
    assert values(then.importance_components)["recency"] == pytest.approx(-340 / 365 * 0.18, abs=0.001)
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await explain(tenant, "nothing")


async def test_links_count_by_relation_and_direction(tenant: Tenant) -> None:
    one, other = await create(tenant, content="a"), await create(tenant, content="b")
    for relation in ("supports", "causes", "example_of", "supersedes", "contradicts", "sibling"):
        await link(tenant, one.memory_id, other.memory_id, relation)

    start = await explain(tenant, one.memory_id)
    end = await explain(tenant, other.memory_id)

    assert (values(start.confidence_components)["supports"], values(end.confidence_components)["supports"]) == (0, 0.05)
    assert values(start.importance_components)["causes"] == pytest.approx(0.04)
    assert values(end.importance_components)["causes"] == 0
    assert values(end.importance_components)["example"] == pytest.approx(0.02)
    assert values(start.importance_components)["supersede"] == pytest.approx(0.02)
    assert values(start.confidence_components)["contradicts"] == pytest.approx(-0.09)
    assert values(end.confidence_components)["contradicts"] == pytest.approx(-0.09)
    # All but the contradiction.
    assert values(end.importance_components)["link"] == pytest.approx(math.log(6) * 0.06)


@pytest.mark.system
async def test_a_memory_with_very_many_links_is_counted_by_relation(tenant: Tenant) -> None:
    hub = await create(tenant, content="hub")
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"{number}") for number in range(40)])
    others = (await tenant.memory.BatchCreateMemories(request)).memories
    for number, other in enumerate(others):
        relation = "supports" if number in {0, 39} else "contradicts" if number == 20 else "related"
        await link(tenant, other.memory_id, hub.memory_id, relation)

    result = await explain(tenant, hub.memory_id)

    assert values(result.confidence_components)["supports"] == pytest.approx(0.1)
    assert values(result.confidence_components)["contradicts"] == pytest.approx(-0.09)
    assert values(result.importance_components)["link"] == pytest.approx(0.18)


async def test_a_tenant_may_choose_the_weighted_formula(cluster: Cluster) -> None:
    tenant = await cluster.new_tenant()
    await tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(
            policy=subjects_pb2.Policy(importance_formula=subjects_pb2.IMPORTANCE_FORMULA_WEIGHTED),
            update_mask=FieldMask(paths=["importance_formula"]),
        )
    )
    created = await create(tenant, importance=1.0)

    assert created.scores.formula == "agentmem-weighted"
    assert created.scores.importance == pytest.approx(0.25 + 0.25 + 0.15)
    assert (await explain(tenant, created.memory_id)).scores == created.scores


async def test_reinforcing_raises_a_memory_and_less_its_neighbours(tenant: Tenant) -> None:
    one, near, far, against = [await create(tenant, content=name) for name in "abcd"]
    await link(tenant, one.memory_id, near.memory_id, "related")
    await link(tenant, near.memory_id, far.memory_id, "related")
    await link(tenant, against.memory_id, one.memory_id, "contradicts")
    request = scores_pb2.ReinforceMemoryRequest(memory_id=one.memory_id, request_id="r")

    answers = await asyncio.gather(*(tenant.memory.ReinforceMemory(request) for _ in range(3)))

    assert all(answer == answers[0] for answer in answers)
    first, second = answers[0].memories
    assert (first.memory_id, second.memory_id) == (one.memory_id, near.memory_id)
    assert [first.confidence, first.importance] == pytest.approx([0.74, 0.56])
    assert [second.confidence, second.importance] == pytest.approx([0.714, 0.521])
    assert not answers[0].truncated
    assert (await tenant.get_memory(one.memory_id)).revision == first.revision == 2
    for untouched in (far, against):
        assert (await tenant.get_memory(untouched.memory_id)).revision == 1


async def test_reinforcing_ends_at_one_and_may_spare_the_neighbours(tenant: Tenant) -> None:
    one, near = await create(tenant, content="a"), await create(tenant, content="b")
    await link(tenant, one.memory_id, near.memory_id, "related")
    request = scores_pb2.ReinforceMemoryRequest(
        memory_id=one.memory_id, confidence_delta=1, importance_delta=0, spread=0
    )

    answer = await tenant.memory.ReinforceMemory(request)

    assert [(one_.confidence, one_.importance) for one_ in answer.memories] == [(1.0, 0.5)]
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await tenant.memory.ReinforceMemory(scores_pb2.ReinforceMemoryRequest(memory_id="nothing"))


async def test_idle_memories_decay_once_for_each_period_and_that_is_no_update(
    tenant: Tenant, connection: Connection
) -> None:
    idle, read_lately = await create(tenant, content="a"), await create(tenant, content="b")
    await aged(connection, tenant, 65)
    await used(connection, tenant, read_lately.memory_id, 1, 3)
    fresh = await create(tenant, content="c")
    before = await stored(connection, tenant, idle.memory_id)

    first = await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest(request_id="r"))
    again = await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest())
    repeated = await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest(request_id="r"))

    assert (first.decayed_count, first.more, again.decayed_count) == (1, False, 0)
    assert repeated == first
    after = await stored(connection, tenant, idle.memory_id)
    assert [after["confidence"], after["importance"]] == pytest.approx([0.68, 0.44])
    assert (after["update_time"], after["updated_by"]) == (before["update_time"], before["updated_by"])
    assert after["revision"] == 2
    for untouched in (read_lately, fresh):
        assert (await tenant.get_memory(untouched.memory_id)).revision == 1


async def test_a_memory_decays_three_times_and_again_once_it_was_changed(
    tenant: Tenant, connection: Connection
) -> None:
    one = await create(tenant, importance=0.5)
    for _ in range(3):
        await aged(connection, tenant, 100)
        await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest())
    assert (await stored(connection, tenant, one.memory_id))["importance"] == pytest.approx(0.41)

    await tenant.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            memory=pb.Memory(memory_id=one.memory_id, content="coffee"), update_mask=FieldMask(paths=["content"])
        )
    )
    await aged(connection, tenant, 31)
    await tenant.memory.DecayScores(scores_pb2.DecayScoresRequest())

    assert (await tenant.get_memory(one.memory_id)).importance == pytest.approx(0.38)


@pytest.mark.system
async def test_the_worker_decays_in_portions_that_cannot_do_a_thing_twice(
    cluster: Cluster, tenant: Tenant, connection: Connection
) -> None:
    request = pb.BatchCreateMemoriesRequest(memories=[pb.Memory(content=f"{number}") for number in range(12)])
    made = (await tenant.memory.BatchCreateMemories(request)).memories
    await aged(connection, tenant, 31)
    token = await system_identity(cluster, str(tenant.tenant_id))

    async with cluster.direct("memory") as channel:
        internal = rpc.MemoryInternalServiceStub(Stubs.of(channel, token).channel)
        portion = await internal.DecayMemories(pb.DecayMemoriesRequest(limit=5))
        responses = await asyncio.gather(*(internal.DecayMemories(pb.DecayMemoriesRequest()) for _ in range(3)))

    assert (portion.decayed_count, portion.more) == (5, True)
    assert sum(answer.decayed_count for answer in responses) == 7
    batch = await tenant.memory.BatchGetMemories(pb.BatchGetMemoriesRequest(memory_ids=[one.memory_id for one in made]))
    assert [one.importance for one in batch.memories] == pytest.approx([0.47] * 12)
    assert {one.revision for one in batch.memories} == {2}
