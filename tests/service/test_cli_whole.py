from __future__ import annotations

import json
from pathlib import Path

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.memory.v1 import memory_pb2


def holder(cluster: Cluster, tenant: Tenant) -> dict[str, str]:
    """Return the environment of a caller with the tenant's key."""
    return {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}


@pytest.mark.system
async def test_a_whole_memory_goes_from_one_tenant_to_another(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    memories = [memory_pb2.Memory(content=f"Note {n} 語", external_id=f"e{n}") for n in range(7)]
    await tenant.memory.BatchCreateMemories(memory_pb2.BatchCreateMemoriesRequest(memories=memories))
    file = tmp_path / "whole.jsonl"

    out = await skein("export", "--memory-only", "-o", str(file), environment=holder(cluster, tenant))
    dry = await skein("import", "skein", str(file), "--dry-run", "--json", environment=holder(cluster, other_tenant))
    done = await skein("import", "skein", str(file), "--json", environment=holder(cluster, other_tenant))
    again = await skein("import", "skein", str(file), environment=holder(cluster, other_tenant))

    assert (out.code, dry.code, done.code, again.code) == (0, 0, 0, 0), dry.err
    assert dry.json == done.json == {"created": {"memory": 7}, "updated": {}, "unchanged": {}, "refused": []}
    listed = await other_tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest())
    assert {memory.content for memory in listed.memories} == {memory.content for memory in memories}


async def test_memoryvault_s_export_is_imported_and_what_is_refused_is_named(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    rows = [{"id": f"m{n}", "content": f"c{n}", "created_at": 1_600_000_000} for n in range(3)]
    document = {
        "links": [{"from_id": "m0", "to_id": "m1"}, {"from_id": "m0", "to_id": "nobody"}],
        "schema": "memoryvault_export_v1",
        "memories": rows,
    }
    file = tmp_path / "vault.json"
    file.write_text(json.dumps(document), "utf-8")

    done = await skein("import", "memoryvault", str(file), "--json", environment=holder(cluster, tenant))

    assert done.out, done.err
    assert done.code == 1
    assert done.json["created"] == {"memory": 3, "link": 1}
    assert done.json["refused"] == [[2, "link", "MEMORY_NOT_FOUND"]]
