"""Levels and scopes: promotion, capacities, what gives way when space is short, and who sees what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from fix_cluster import Cluster, Stubs, Tenant, refused
from fix_world import system_identity
from google.protobuf.field_mask_pb2 import FieldMask

from skein.memory.v1 import memory_pb2 as pb
from skein.memory.v1 import memory_pb2_grpc as rpc
from skein.memory.v1 import snapshots_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import limits_pb2, subjects_pb2
from skein_memory.memories.convert import UPDATABLE

NAMES = {pb.LEVEL_STRATEGIC: "s", pb.LEVEL_TACTICAL: "t", pb.LEVEL_OPERATIONAL: "o", pb.LEVEL_CONTEXTUAL: "c"}


async def read(tenant: Tenant, memory_id: str) -> pb.Memory:
    return (await tenant.memory.GetMemory(pb.GetMemoryRequest(memory_id=memory_id, show_deleted=True))).memory


async def capped(tenant: Tenant, *capacities: int, is_capped: bool = True) -> None:
    """Let the levels of a tenant hold so many memories, the furthest first. Before it stores any: rules are cached."""
    names = ("capacity_strategic", "capacity_tactical", "capacity_operational", "capacity_contextual")
    policy = subjects_pb2.Policy(enforce_level_capacities=is_capped, **dict(zip(names, capacities, strict=True)))  # type: ignore[arg-type]
    request = subjects_pb2.UpdatePolicyRequest(
        policy=policy, update_mask=FieldMask(paths=["enforce_level_capacities", *names])
    )
    await tenant.tenancy.UpdatePolicy(request)


async def kept(tenant: Tenant) -> dict[str, str]:
    """Return the level of each memory by its content; archived and deleted ones are "-" and "x"."""
    listed = await tenant.memory.ListMemories(
        pb.ListMemoriesRequest(show_archived=True, show_deleted=True, page_size=1000)
    )
    return {
        memory.content: "x"
        if memory.HasField("delete_time")
        else "-"
        if memory.HasField("archive_time")
        else NAMES[memory.level]
        for memory in listed.memories
    }


async def test_a_memory_is_promoted_and_demoted_level_by_level(tenant: Tenant) -> None:
    made = await tenant.create_memory("m")

    up = [
        (await tenant.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=made.memory_id))).memory.level
        for _ in range(2)
    ]
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEVEL_OUT_OF_RANGE"):
        await tenant.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=made.memory_id))
    down = [
        (await tenant.memory.DemoteMemory(pb.DemoteMemoryRequest(memory_id=made.memory_id))).memory.level
        for _ in range(3)
    ]
    with refused(grpc.StatusCode.FAILED_PRECONDITION, "LEVEL_OUT_OF_RANGE"):
        await tenant.memory.DemoteMemory(pb.DemoteMemoryRequest(memory_id=made.memory_id))

    assert "".join(NAMES[level] for level in (*up, *down)) == "tstoc"


async def test_a_promotion_is_refused_when_stale_and_made_once(tenant: Tenant, other_tenant: Tenant) -> None:
    made = await tenant.create_memory("m")
    request = pb.PromoteMemoryRequest(memory_id=made.memory_id, revision=1, request_id="up")

    first = await tenant.memory.PromoteMemory(request)
    again = await tenant.memory.PromoteMemory(request)

    assert again == first
    assert (first.memory.level, first.memory.revision) == (pb.LEVEL_TACTICAL, 2)
    with refused(grpc.StatusCode.ABORTED, "REVISION_STALE"):
        await tenant.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=made.memory_id, revision=1))
    with refused(grpc.StatusCode.NOT_FOUND, "MEMORY_NOT_FOUND"):
        await other_tenant.memory.DemoteMemory(pb.DemoteMemoryRequest(memory_id=made.memory_id))


async def test_levels_without_capacities_hold_everything(tenant: Tenant) -> None:
    await capped(tenant, 1, 1, 1, 1, is_capped=False)

    for number in range(3):
        await tenant.create_memory(str(number))

    assert await kept(tenant) == dict.fromkeys("012", "o")


async def test_memories_that_a_full_level_has_no_room_for_pass_down_by_importance(tenant: Tenant) -> None:
    await capped(tenant, 1, 1, 2, 1)

    for content, importance in (("a", 0.5), ("b", 0.9), ("c", 0.7), ("d", 0.1), ("e", 0.6)):
        await tenant.create_memory(content, importance=importance)

    # b and c stay, the best of the others takes the one contextual place.
    assert await kept(tenant) == {"b": "o", "c": "o", "e": "c", "a": "-", "d": "-"}


async def test_a_promotion_into_a_full_level_makes_its_least_important_memory_give_way(tenant: Tenant) -> None:
    await capped(tenant, 1, 5, 5, 5)
    await tenant.create_memory("old", level=pb.LEVEL_STRATEGIC, importance=0.4)
    better = await tenant.create_memory("better", level=pb.LEVEL_TACTICAL, importance=0.8)
    worse = await tenant.create_memory("worse", level=pb.LEVEL_TACTICAL, importance=0.1)

    up = await tenant.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=better.memory_id))
    bounced = await tenant.memory.PromoteMemory(pb.PromoteMemoryRequest(memory_id=worse.memory_id))

    assert up.memory.level == pb.LEVEL_STRATEGIC
    # The answer says where it came to rest.
    assert (bounced.memory.level, bounced.memory.revision) == (pb.LEVEL_TACTICAL, 3)
    assert await kept(tenant) == {"better": "s", "old": "t", "worse": "t"}


@pytest.mark.system
async def test_a_memory_that_returns_to_a_full_level_is_ranked_by_importance(tenant: Tenant) -> None:
    await capped(tenant, 5, 5, 1, 5)
    good = await tenant.create_memory("good", importance=0.9)
    await tenant.memory.DeleteMemory(pb.DeleteMemoryRequest(memory_id=good.memory_id))
    await tenant.create_memory("other", importance=0.2)

    await tenant.memory.UndeleteMemory(pb.UndeleteMemoryRequest(memory_id=good.memory_id))

    assert await kept(tenant) == {"good": "o", "other": "c"}


@pytest.mark.system
async def test_the_worker_brings_levels_back_that_were_full_before_they_were_capped(
    cluster: Cluster, tenant: Tenant
) -> None:
    memories = [pb.Memory(content=str(number), importance=number / 10) for number in range(8)]
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=memories))
    await capped(tenant, 5, 5, 3, 2)
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel:
        internal = rpc.MemoryInternalServiceStub(Stubs.of(channel, token).channel)
        async with asyncio.timeout(60):
            # The policy of before is believed for some seconds.
            while "o" in {level for content, level in (await kept(tenant)).items() if content < "5"}:
                await internal.DeleteExpired(pb.DeleteExpiredRequest())
                await asyncio.sleep(0.2)

    assert await kept(tenant) == {**dict.fromkeys("765", "o"), **dict.fromkeys("43", "c"), **dict.fromkeys("210", "-")}


@pytest.mark.system
async def test_an_import_passes_down_what_a_level_has_no_room_for(tenant: Tenant, other_tenant: Tenant) -> None:
    for number in range(6):
        await other_tenant.create_memory(str(number), importance=number / 10)
    lines = (await other_tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest(page_size=100))).lines
    await capped(tenant, 5, 5, 3, 2)

    imported = await tenant.snapshots.ImportData(snapshots_pb2.ImportDataRequest(lines=lines))

    assert imported.counts.created["memory"] == 6
    assert await kept(tenant) == {**dict.fromkeys("543", "o"), **dict.fromkeys("21", "c"), "0": "-"}


async def limit_memories(cluster: Cluster, tenant: Tenant, most: int) -> None:
    acting = cluster.with_key(cluster.operator_key, **{"skein-tenant-id": str(tenant.tenant_id)})
    request = limits_pb2.UpdateQuotaRequest(
        quota=limits_pb2.Quota(memories=most), update_mask=FieldMask(paths=["memories"])
    )
    await acting.tenancy.UpdateQuota(request)


@pytest.mark.system
async def test_importance_decides_which_memories_a_full_plan_keeps(cluster: Cluster, tenant: Tenant) -> None:
    await limit_memories(cluster, tenant, 3)
    await capped(tenant, 10, 10, 10, 10)
    for content, importance in (("a", 0.3), ("b", 0.6), ("c", 0.9)):
        await tenant.create_memory(content, importance=importance)

    await tenant.create_memory("d", importance=0.5)
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await tenant.create_memory("e", importance=0.4)
    batch = [pb.Memory(content=content, importance=0.95) for content in "fg"]
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=batch))

    assert await kept(tenant) == {**dict.fromkeys("abd", "x"), **dict.fromkeys("cfg", "o")}
    usage = await tenant.tenancy.GetUsage(limits_pb2.GetUsageRequest())
    assert "memories" in str(usage)


async def test_a_plan_that_is_full_refuses_more_where_levels_are_not_capped(cluster: Cluster, tenant: Tenant) -> None:
    await limit_memories(cluster, tenant, 1)
    await tenant.create_memory("a", importance=0.1)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"):
        await tenant.create_memory("b", importance=0.9)

    assert await kept(tenant) == {"a": "o"}


@pytest.mark.system
async def test_many_who_store_at_once_never_overfill_a_plan_or_a_level(cluster: Cluster, tenant: Tenant) -> None:
    await limit_memories(cluster, tenant, 4)
    await capped(tenant, 2, 2, 2, 2)

    answers = await asyncio.gather(
        *(tenant.create_memory(f"{number:02}", importance=number / 20) for number in range(12)), return_exceptions=True
    )

    alive = [content for content, level in (await kept(tenant)).items() if level != "x"]
    assert len(alive) <= 4
    assert sum(isinstance(answer, pb.Memory) for answer in answers) >= 4
    in_operational = [content for content, level in (await kept(tenant)).items() if level == "o"]
    assert len(in_operational) <= 2


def scoped(name: str, scope: pb.Scope, **ids: str) -> pb.Memory:
    return pb.Memory(content=name, scope=scope, **ids)  # type: ignore[arg-type]


WHO = {
    "global": scoped("global", pb.SCOPE_GLOBAL, agent_id="other", session_id="other"),
    "global of w": scoped("global of w", pb.SCOPE_GLOBAL, subject_id="w"),
    "agent a": scoped("agent a", pb.SCOPE_AGENT, agent_id="a"),
    "agent b": scoped("agent b", pb.SCOPE_AGENT, agent_id="b"),
    "user u": scoped("user u", pb.SCOPE_USER, subject_id="u"),
    "user u of b": scoped("user u of b", pb.SCOPE_USER, agent_id="b", subject_id="u"),
    "user v": scoped("user v", pb.SCOPE_USER, subject_id="v"),
    "session s": scoped("session s", pb.SCOPE_SESSION, session_id="s"),
    "session s of v": scoped("session s of v", pb.SCOPE_SESSION, session_id="s", subject_id="v"),
    "session t": scoped("session t", pb.SCOPE_SESSION, session_id="t"),
    "agent of nobody": scoped("agent of nobody", pb.SCOPE_AGENT),
}


@pytest.mark.parametrize(
    ("context", "seen"),
    [
        ((), ["global", "global of w"]),
        (("a",), ["global", "global of w", "agent a"]),
        (("b",), ["global", "global of w", "agent b"]),
        (("a", "u"), ["global", "agent a", "user u"]),
        (("b", "u"), ["global", "agent b", "user u", "user u of b"]),
        (("", "u"), ["global", "user u", "user u of b"]),
        (("a", "u", "s"), ["global", "agent a", "user u", "session s"]),
        (("a", "v", "s"), ["global", "agent a", "user v", "session s", "session s of v"]),
        (("", "", "t"), ["global", "global of w", "session t"]),
        (("nobody", "nobody", "nobody"), ["global"]),
        (("", "w"), ["global", "global of w"]),
    ],
)
async def test_a_context_sees_itself_and_what_is_above_it_never_sideways(
    tenant: Tenant, context: Sequence[str], seen: list[str]
) -> None:
    await tenant.memory.BatchCreateMemories(pb.BatchCreateMemoriesRequest(memories=WHO.values()))
    ids = dict(zip(("agent_id", "subject_id", "session_id"), context, strict=False))
    visible_to = pb.ScopeContext(**ids)

    listed = await tenant.memory.ListMemories(
        pb.ListMemoriesRequest(filter=pb.MemoryFilter(visible_to=visible_to), page_size=100)
    )
    everything = await tenant.memory.ListMemories(pb.ListMemoriesRequest(page_size=100))

    recalled = await tenant.recall.Recall(
        recall_pb2.RecallRequest(
            query="global agent user session",
            filter=pb.MemoryFilter(visible_to=visible_to),
            limit=100,
            min_relevance=0,
        )
    )

    assert sorted(memory.content for memory in listed.memories) == sorted(seen)
    assert sorted(hit.memory.content for hit in recalled.hits) == sorted(seen)
    assert len(everything.memories) == len(WHO)


def test_levels_and_secrets_can_be_updated_as_fields() -> None:
    assert {"level", "secret_value"} <= UPDATABLE
    assert not UPDATABLE & {"secret", "ttl"}
