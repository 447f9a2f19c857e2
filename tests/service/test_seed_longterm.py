"""What the table of long-term memory means here: one row with its own id, found by its vector, read in JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fix_cluster import Cluster, Tenant
from fix_http import TLS
from fix_seeds import memories
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct

from skein.memory.v1 import memory_pb2
from skein.recall.v1 import recall_pb2

ULID = "01HQ3K5V8W9XYZABCDEFGHJKMN"


async def remember(tenant: Tenant, external_id: str, agent_id: str, content: str) -> memory_pb2.Memory:
    metadata = Struct()
    metadata.update({"topic": "drinks", "tags": ["hot", None]})
    (memory,) = await memories(tenant, content, external_id=external_id, agent_id=agent_id, metadata=metadata)
    return memory


async def test_a_search_returns_the_whole_row_of_the_id_that_it_was_stored_under(tenant: Tenant) -> None:
    stored = await remember(tenant, ULID, "planner", "Marta likes green tea")
    await remember(tenant, "01HQ3K5V8W9XYZABCDEFGHJKMP", "writer", "Marta likes green tea in the morning")

    request = recall_pb2.RecallRequest(
        query="What does Marta drink?", filter=memory_pb2.MemoryFilter(agent_id="planner")
    )
    (hit,) = (await tenant.recall.Recall(request)).hits
    read = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=ULID))).memory

    assert (hit.memory.external_id, hit.memory.agent_id, hit.memory.content) == (ULID, "planner", stored.content)
    assert (read.memory_id, read.metadata) == (hit.item_id, hit.memory.metadata)
    assert json_format.MessageToDict(read.metadata) == {"topic": "drinks", "tags": ["hot", None]}


@pytest.mark.system
async def test_a_row_in_json_has_the_time_as_text_and_the_metadata_as_an_object(
    cluster: Cluster, tenant: Tenant
) -> None:
    stored = await remember(tenant, ULID, "planner", "Marta likes green tea")

    async with httpx.AsyncClient(base_url=f"http://{cluster.addresses['http']}", trust_env=False, verify=TLS) as client:
        answer = await client.post(
            "/skein.memory.v1.MemoryService/GetMemory",
            headers={"authorization": f"Bearer {tenant.api_key}"},
            json={"memoryId": ULID},
        )

    row: dict[str, Any] = answer.json()["memory"]
    assert (row["memoryId"], row["externalId"], row["agentId"]) == (stored.memory_id, ULID, "planner")
    assert row["metadata"] == {"topic": "drinks", "tags": ["hot", None]}
    assert datetime.fromisoformat(row["createTime"]) == stored.create_time.ToDatetime(UTC)
