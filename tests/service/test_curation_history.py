"""Curation logs each event once, and no content that a person wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
from fix_cluster import Tenant

from skein.memory.v1 import curation_pb2 as pb
from skein.memory.v1 import memory_pb2, scores_pb2

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

SECRET = "nobody else's business"


async def test_each_act_of_curation_is_one_event_without_content_and_keeps_what_was_before(
    tenant: Tenant, connection: Connection
) -> None:
    request = memory_pb2.BatchCreateMemoriesRequest(
        memories=[
            memory_pb2.Memory(content=f"{SECRET} {n}", title=f"{SECRET} {n}", type="fact", key=f"{SECRET} {n}")
            for n in range(4)
        ]
    )
    a, b, c, d = (memory.memory_id for memory in (await tenant.memory.BatchCreateMemories(request)).memories)
    curation = tenant.curation
    for trust in (0.1, 0.9):
        await curation.SetSourceTrust(pb.SetSourceTrustRequest(source=SECRET, trust=trust, notes=SECRET))
    await curation.DeleteSourceTrust(pb.DeleteSourceTrustRequest(source=SECRET))
    for status in (pb.CONFLICT_STATUS_NEEDS_REVIEW, pb.CONFLICT_STATUS_DISMISSED):
        await curation.ResolveConflict(
            pb.ResolveConflictRequest(a_memory_id=a, b_memory_id=b, status=status, note=SECRET)
        )
    await curation.ResolveEntity(pb.ResolveEntityRequest(alias_memory_id=a, canonical_memory_id=b, note=SECRET))
    await curation.DeleteAlias(pb.DeleteAliasRequest(alias_memory_id=a))
    await tenant.memory.ReinforceMemory(scores_pb2.ReinforceMemoryRequest(memory_id=c))
    await tenant.memory.MergeMemories(scores_pb2.MergeMemoriesRequest(memory_ids=[c, d]))

    events = await connection.fetch(
        "SELECT event_type, entity_id, summary, payload::text FROM memory.changes WHERE tenant_id = $1"
        " AND event_type <> 'memory_created' ORDER BY transaction, change_id",
        tenant.tenant_id,
    )
    kept = await connection.fetch(
        "SELECT kind, revision FROM memory.revisions WHERE tenant_id = $1 ORDER BY kind, revision", tenant.tenant_id
    )

    # What one transaction tells at several times has no order of its own.
    event_types = [row["event_type"] for row in events]
    assert [*event_types[:8], *sorted(event_types[8:])] == [
        *["memory_source_trust_set"] * 3,
        *["memory_conflict_resolved"] * 2,
        "memory_entity_resolved",
        "memory_entity_separated",
        "memory_reinforced",
        "memory_link_created",
        *["memory_merged"] * 2,
    ]
    assert SECRET not in str([dict(row) for row in events])
    assert len({row["entity_id"] for row in events[:3]}) == 1
    assert events[3]["entity_id"] == f"{a}|{b}"
    assert [tuple(row) for row in kept] == [("alias", 1), ("conflict", 1), ("source_trust", 1), ("source_trust", 2)]
