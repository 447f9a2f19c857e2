"""Memories with sources, their trust, and the work of the worker that computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fix_cluster import Cluster, Stubs, Tenant
from fix_models import until
from fix_world import system_identity

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2, memory_pb2_grpc
from skein.memory.v1.memory_pb2 import SourceReference
from skein.recall.v1 import recall_pb2

AGENT, PERSON, DOCUMENT = memory_pb2.SOURCE_KIND_AGENT, memory_pb2.SOURCE_KIND_PERSON, memory_pb2.SOURCE_KIND_DOCUMENT
MEMORY, MESSAGE = memory_pb2.SOURCE_KIND_MEMORY, memory_pb2.SOURCE_KIND_MESSAGE
_HAS_WORK = "SELECT EXISTS (SELECT FROM memory.trust_work WHERE tenant_id = $1)"
QUESTION = "What does Anna drink in the morning?"


def named(kind: memory_pb2.SourceKind, name: str) -> SourceReference:
    return SourceReference(kind=kind, name=name)


def of(memory: memory_pb2.Memory) -> SourceReference:
    return SourceReference(kind=MEMORY, id=memory.memory_id)


async def create(tenant: Stubs, content: str, *sources: SourceReference, **fields: Any) -> memory_pb2.Memory:
    memory = memory_pb2.Memory(content=content, derived_from=sources, **fields)
    return (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory


async def rate(tenant: Stubs, source: str, trust: float) -> None:
    await tenant.curation.SetSourceTrust(pb.SetSourceTrustRequest(source=source, trust=trust))


async def vouch(tenant: Stubs) -> None:
    """Trust the tenant's own key, so that the names that it gives raise the trust."""
    memory = await create(tenant, "A rated principal was here.")
    await tenant.memory.DeleteMemory(memory_pb2.DeleteMemoryRequest(memory_id=memory.memory_id))
    await rate(tenant, memory.created_by, 1.0)


async def lineage(tenant: Stubs, *memories: memory_pb2.Memory, **fields: Any) -> pb.GetLineageResponse:
    request = pb.GetLineageRequest(memory_ids=[memory.memory_id for memory in memories], **fields)
    return await tenant.curation.GetLineage(request)


async def trust_of(tenant: Stubs, memory: memory_pb2.Memory) -> float:
    return (await lineage(tenant, memory)).nodes[0].trust


async def replace_sources(tenant: Stubs, memory: memory_pb2.Memory, *sources: SourceReference) -> None:
    changed = memory_pb2.Memory(memory_id=memory.memory_id, derived_from=sources)
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask={"paths": ["derived_from"]})
    )


async def impacted(tenant: Stubs, source: SourceReference, *, page_size: int = 2) -> list[pb.ImpactedMemory]:
    found: list[pb.ImpactedMemory] = []
    token = ""
    while True:
        request = pb.ListImpactedRequest(source=source, page_size=page_size, page_token=token)
        page = await tenant.curation.ListImpacted(request)
        found += page.memories
        token = page.next_page_token
        if not token:
            return found


async def rescore(cluster: Cluster, tenant: Tenant) -> None:
    """Do the worker's work, and wait for what the worker has begun itself: a call skips that, and has no more."""
    token = await system_identity(cluster, str(tenant.tenant_id))
    async with cluster.direct("memory") as channel, cluster.superuser() as connection:
        internal = memory_pb2_grpc.MemoryInternalServiceStub(Stubs.of(channel, token).channel)

        async def is_done() -> bool:
            while (await internal.RescoreTrust(memory_pb2.RescoreTrustRequest())).more:
                pass
            return not await connection.fetchval(_HAS_WORK, tenant.tenant_id)

        await until(is_done)


async def writer(cluster: Cluster, tenant: Tenant, name: str) -> tuple[Stubs, str]:
    """Return another agent of the tenant, and the principal that its memories are written by."""
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name=name))
    stubs = cluster.with_key(key.secret)
    memory = await create(stubs, f"{name} was here.")
    return stubs, memory.created_by


async def recalled(tenant: Stubs, **fields: Any) -> Sequence[recall_pb2.Hit]:
    return (await tenant.recall.Recall(recall_pb2.RecallRequest(query=QUESTION, min_relevance=0, **fields))).hits
