"""`skein lineage`: the chain of a memory, and what derives from it."""

from __future__ import annotations

from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein

from skein.memory.v1 import memory_pb2


async def test_the_chain_of_a_memory_is_printed_with_its_trust(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}
    document = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_DOCUMENT, name="a [bold] letter")
    letter = memory_pb2.Memory(content="Anna drinks tea.", external_id="letter", derived_from=[document])
    await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=letter))
    source = memory_pb2.SourceReference(kind=memory_pb2.SOURCE_KIND_MEMORY, id="letter")
    fact = memory_pb2.Memory(content="Tea.", external_id="fact", derived_from=[source])
    created = await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=fact))

    shown = await skein("lineage", "fact", environment=environment)
    as_json = await skein("lineage", "fact", "--json", environment=environment)
    impacted = await skein("lineage", "letter", "--impacted", environment=environment)
    unknown = await skein("lineage", "nothing", environment=environment)

    assert "document a [bold] letter, trust 0.50" in " ".join(shown.out.split())
    assert len(as_json.json["nodes"]) == 3
    assert created.memory.memory_id in impacted.out
    assert unknown.code != 0
