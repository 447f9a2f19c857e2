"""A request for every RPC of scores and curation, and the things that they name."""

from __future__ import annotations

import asyncio

from fix_cluster import Stubs
from fix_extraction import extractor_token
from fix_recipe import mask, service
from fix_world import MAKERS, World

from skein.memory.v1 import approvals_pb2, memory_pb2, memory_pb2_grpc, pages_pb2, scores_pb2
from skein.memory.v1 import curation_pb2 as pb
from skein.tenancy.v1 import subjects_pb2

SOURCE = "the source of the matrix"
_curation = service("skein.memory.v1.CurationService", pb)
_approvals = service("skein.memory.v1.CurationService", approvals_pb2)
_pages = service("skein.memory.v1.CurationService", pages_pb2)
_memories = service("skein.memory.v1.MemoryService", scores_pb2)
_internal = service("skein.memory.v1.MemoryInternalService", memory_pb2)


async def _fact(world: World, key: str) -> str:
    memory = memory_pb2.Memory(type="fact", key=key, content=world.text(f"the kettle is verified {key}"), confidence=1)
    return (await world.tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory.memory_id


async def _conflict(world: World) -> tuple[str, str]:
    # Keys that differ in spaces alone are two keys, and disagree.
    pair = await _fact(world, world.text("color ")), await _fact(world, world.text("color  "))
    await world.tenant.curation.ResolveConflict(
        pb.ResolveConflictRequest(
            a_memory_id=pair[0],
            b_memory_id=pair[1],
            status=pb.CONFLICT_STATUS_NEEDS_REVIEW,
            note=world.text(),
        )
    )
    return pair


async def _alias(world: World) -> str:
    alias_id, canonical_id = await MAKERS["memory_id"](world), await MAKERS["memory_id"](world)
    await world.tenant.curation.ResolveEntity(
        pb.ResolveEntityRequest(alias_memory_id=alias_id, canonical_memory_id=canonical_id, note=world.text())
    )
    return str(alias_id)


async def _trust(world: World) -> str:
    # Another tenant asks by the same name, and finds nothing.
    await world.tenant.curation.SetSourceTrust(
        pb.SetSourceTrustRequest(source=world.text(SOURCE), trust=0.9, notes=world.text())
    )
    return world.text(SOURCE)


async def _pending(world: World) -> str:
    policy = subjects_pb2.Policy(approval="agents")
    await world.tenant.tenancy.UpdatePolicy(
        subjects_pb2.UpdatePolicyRequest(policy=policy, update_mask=mask("approval"))
    )
    agent = world.cluster.with_key(world.tenant.api_key, **{"skein-agent-id": "kitchen"})
    async with asyncio.timeout(60):
        while True:
            memory = memory_pb2.Memory(content=world.text("the kettle waits "))
            created = (await agent.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory
            if created.pending_approval:
                return created.memory_id
            # Services see a new policy within a second.
            await asyncio.sleep(0.1)


async def _refused(world: World) -> str:
    source = memory_pb2.SourceReference(
        kind=memory_pb2.SOURCE_KIND_MESSAGE, id=await world.thing("message_id"), start_character=0, end_character=1
    )
    fact = memory_pb2.RefusedFact(
        memory=memory_pb2.Memory(content=world.text("the kettle asks "), derived_from=[source]), reason="question"
    )
    async with world.cluster.direct("memory", caller="worker") as channel:
        token = await extractor_token(world.cluster, str(world.tenant.tenant_id), space_id=world.space_id)
        extractor = Stubs.of(channel, token)
        await memory_pb2_grpc.MemoryInternalServiceStub(extractor.channel).KeepRefusedFacts(
            memory_pb2.KeepRefusedFactsRequest(facts=[fact])
        )
    request = approvals_pb2.ListRefusedFactsRequest(page_size=1000)
    return (await world.tenant.curation.ListRefusedFacts(request)).refused_facts[-1].pending_id


async def _page(world: World) -> str:
    page = pages_pb2.Page(title=world.text("the page "), entity_memory_id=await world.thing("memory_id"))
    return (await world.tenant.curation.CreatePage(pages_pb2.CreatePageRequest(page=page))).page.page_id


MAKERS |= {
    "page_id": _page,
    "conflict": _conflict,
    "alias_memory_id": _alias,
    "source": _trust,
    "pending_id": _pending,
    "refused_id": _refused,
}

_memories("ExplainScore", "memory_id")
_memories("ReinforceMemory", "memory_id")
_memories("DecayScores")
_memories("MergeMemories", "memory_id", "other_memory_id", build=lambda t, _w: {"memory_ids": list(t.values())})
_memories("ConsolidateMemories", build=lambda _t, _w: {})
_internal("DecayMemories")
_internal("ReindexMemories")
_internal("RescoreTrust")
_curation("GetLineage", "memory_id", build=lambda t, _w: {"memory_ids": list(t.values())})
_curation(
    "ListImpacted",
    "memory_id",
    build=lambda t, _w: {"source": {"kind": memory_pb2.SOURCE_KIND_MEMORY, "id": t["memory_id"]}},
)
_curation("SetSourceTrust", build=lambda _t, w: {"source": w.text(SOURCE), "trust": 0.2})
_curation("GetSourceTrust", "source")
_curation("ListSourceTrust", "source", build=lambda _t, _w: {})
_curation("DeleteSourceTrust", "source")
_curation("ListConflicts", "conflict", build=lambda _t, _w: {"show_settled": True, "all_types": True})
_curation(
    "ResolveConflict",
    "conflict",
    build=lambda t, _w: {
        "a_memory_id": t["conflict"][0],
        "b_memory_id": t["conflict"][1],
        "status": pb.CONFLICT_STATUS_SUPERSEDED,
        "canonical_memory_id": t["conflict"][0],
    },
)
_curation("ListConflictResolutions", "conflict", build=lambda _t, _w: {})
_curation(
    "ResolveEntity",
    "memory_id",
    "other_memory_id",
    build=lambda t, _w: {"alias_memory_id": t["memory_id"], "canonical_memory_id": t["other_memory_id"]},
)
_curation("GetCanonicalMemory", "alias_memory_id", build=lambda t, _w: {"memory_id": t["alias_memory_id"]})
_curation("ListAliases", "alias_memory_id", build=lambda _t, _w: {})
_curation("DeleteAlias", "alias_memory_id")
_approvals("ListPendingMemories", "pending_id", build=lambda _t, _w: {})
_approvals("ListRefusedFacts", "refused_id", build=lambda _t, _w: {})
_approvals("ApproveMemory", "pending_id")
_approvals("RefuseMemory", "pending_id")
_curation("GetReviewQueue", "memory_id", build=lambda _t, _w: {})
_curation("GetTemporalClusters", "memory_id", build=lambda _t, _w: {"unit": pb.CLUSTER_UNIT_HOUR})
_curation("GetStatistics", "memory_id", build=lambda _t, _w: {})
_pages(
    "CreatePage",
    "memory_id",
    build=lambda t, w: {"page": {"title": w.text("a page "), "entity_memory_id": t["memory_id"]}},
)
_pages("GetPage", "page_id")
_pages("ListPages", "page_id", build=lambda _t, _w: {})
_pages(
    "UpdatePage",
    "page_id",
    build=lambda t, w: {"page": {"page_id": t["page_id"], "title": w.text("new ")}, "update_mask": mask("title")},
)
_pages("DeletePage", "page_id")
