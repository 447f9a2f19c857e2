"""A tenant leaves with everything that is its own, and is the same elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_everything import fill, first_message, normal_lines, record_lines

from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2
from skein.tenancy.v1 import subjects_pb2
from skein_importers.records import ITEMS, Kind

pytestmark = pytest.mark.timeout(300)


async def test_a_whole_tenant_is_the_same_elsewhere(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    here = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    there = {**here, "SKEIN_API_KEY": other_tenant.api_key}
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    question = gateway_pb2.RecallRequest(query="Where are the keys?")

    out = await skein("export", "-o", str(first), environment=here)
    into = await skein("import", "jsonl", str(first), "--json", environment=there)
    again = await skein("export", "-o", str(second), environment=there)

    assert (out.code, into.code, again.code) == (0, 0, 0), out.err + into.err + again.err
    kinds = Counter(json.loads(line)["record"] for line in first.read_text("utf-8").splitlines())
    assert kinds.keys() == {*ITEMS, Kind.SESSION, Kind.MESSAGE, Kind.MEMORY, Kind.LINK}
    assert record_lines(second) == record_lines(first)
    assert (await first_message(other_tenant)).update_time == (await first_message(tenant)).update_time
    request = recall_pb2.BatchGetIndexStatesRequest(item_ids=["m2"], show_embeddings=True)
    (here_state,), (there_state,) = [
        (await each.recall.BatchGetIndexStates(request)).states for each in (tenant, other_tenant)
    ]
    (kept,) = there_state.vectors
    assert (kept.provider, kept.dimensions, kept.from_caller) == ("sentence-transformers", 384, True)
    assert kept.embeddings == here_state.vectors[0].embeddings
    mine, theirs = [(await each.gateway.Recall(question)).hits for each in (tenant, other_tenant)]
    assert [hit.memory.content for hit in mine] == [hit.memory.content for hit in theirs]


async def test_a_whole_tenant_is_the_same_elsewhere_through_the_interchange_format(
    cluster: Cluster, tenant: Tenant, other_tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    exact = memory_pb2.Memory(content="Many", type="preference", data_json='{"n": 9007199254740993, "x": 1.10}')
    exact.metadata.update({"a": {"b": [1.5, None]}})
    exact.valid_to_time.FromJsonString("2090-01-01T00:00:00.123456Z")
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=exact))
    types = subjects_pb2.UpdatePolicyRequest(policy=subjects_pb2.Policy(memory_types=["note", "preference"]))
    types.update_mask.paths.append("memory_types")
    await tenant.tenancy.UpdatePolicy(types)
    here = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    there = {**here, "SKEIN_API_KEY": other_tenant.api_key}
    first, second = tmp_path / "first.mif.json", tmp_path / "second.mif.json"

    out = await skein("export", "--format", "mif", "-o", str(first), environment=here)
    dry = await skein("import", "mif", str(first), "--dry-run", "--json", environment=there)
    into = await skein("import", "mif", str(first), "--json", environment=there)
    repeated = await skein("import", "mif", str(first), "--json", environment=there)
    compared = await skein("import", "mif", str(first), "--compare", "--json", environment=there)
    again = await skein("export", "--format", "mif", "-o", str(second), environment=there)

    assert (compared.json["missing"], compared.json["different"]) == ({}, [])
    codes = [each.code for each in (out, dry, into, repeated, compared, again)]
    assert codes == [0] * 6, out.err + into.err + compared.err + again.err
    assert dry.json["read"] == into.json["read"] == into.json["written"]
    assert sum(repeated.json["written"].values()) == 0
    mine, theirs = [json.loads(path.read_text("utf-8")) for path in (first, second)]
    assert mine["memories"]
    assert sorted(mine["memories"], key=lambda memory: memory["id"]) == sorted(
        theirs["memories"], key=lambda memory: memory["id"]
    )
    mine_others, their_others = [document["vendor_extensions"]["skein"]["records"] for document in (mine, theirs)]
    assert {record["record"] for record in mine_others} == {*ITEMS, Kind.SESSION, Kind.MESSAGE, Kind.LINK}
    assert normal_lines(mine_others) == normal_lines(their_others)


async def test_an_export_equals_the_tenant_that_it_came_from(cluster: Cluster, tenant: Tenant, tmp_path: Path) -> None:
    await fill(tenant)
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content="No other id")))
    path = tmp_path / "export.mif.json"
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    await skein("export", "--format", "mif", "-o", str(path), environment=environment)
    compared = await skein("import", "mif", str(path), "--compare", "--json", environment=environment)

    assert compared.code == 0, compared.err
    assert (compared.json["missing"], compared.json["different"]) == ({}, [])


async def test_the_interchange_format_has_memories_in_its_own_fields(
    cluster: Cluster, tenant: Tenant, tmp_path: Path
) -> None:
    await fill(tenant)
    path = tmp_path / "export.mif.json"
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    await skein("export", "--format", "mif", "-o", str(path), environment=environment)

    document = json.loads(path.read_text("utf-8"))
    assert (document["mif_version"], document["generator"]["name"]) == ("2.0", "skein")
    memories = {memory["external_id"]: memory for memory in document["memories"]}
    assert memories.keys() == {"m0", "m1", "m2", "m3"}
    tea = memories["m0"]
    assert str(UUID(tea["id"])) == tea["id"]
    assert (tea["content"], tea["memory_type"], tea["tags"]) == ("Ann prefers tea", "note", ["home"])
    assert tea["related_memory_ids"] == [memories["m1"]["id"]]
    assert datetime.fromisoformat(tea["created_at"]) <= datetime.fromisoformat(document["export_meta"]["created_at"])


async def test_the_memory_alone_has_its_own_format() -> None:
    done = await skein("export", "--memory-only", "--format", "mif", environment=test_environment())

    assert done.code == 2
    assert "omit --format" in done.err
