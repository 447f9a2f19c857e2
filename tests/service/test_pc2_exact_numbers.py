"""Numbers that no double represents pass through pc2's ports unchanged."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from fix_cluster import Tenant
from fix_pc2 import Assistant

from skein.memory.v1 import memory_pb2

BIG, WHOLE = 9007199254740993, 3


@pytest.mark.parametrize("port", [5570, 5576])
async def test_a_content_comes_back_with_every_digit(assistant: Assistant, tenant: Tenant, port: int) -> None:
    content = {"text": f"x {uuid.uuid4().hex}", "n": BIG, "list": [WHOLE, 0.5, -BIG], "metadata": {"far": BIG * 10**20}}
    created = await assistant.request("create", port=port, payload={"memory_type": "context", "content": content})
    memory_id = created["data"]["memory_id"]

    reply = await assistant.request("read", port=port, payload={"memory_id": memory_id})
    memory = (await tenant.memory.GetMemory(memory_pb2.GetMemoryRequest(memory_id=memory_id))).memory

    assert reply["data"]["content"] == content
    assert json.loads(memory.data_json) == {"n": BIG, "list": [WHOLE, 0.5, -BIG]}
    assert json.loads(memory.metadata_json) == {"far": BIG * 10**20}


async def test_digits_that_a_typed_client_stored_survive_an_update(assistant: Assistant, tenant: Tenant) -> None:
    text = '{"n":9007199254740993,"fine":0.123456789012345678901234567891}'
    memory = memory_pb2.Memory(content="x", data_json=text, metadata_json=text)
    stored = (await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory))).memory

    await assistant.request("update", payload={"memory_id": stored.memory_id, "tags": ["changed"]})
    request = memory_pb2.GetMemoryRequest(memory_id=stored.memory_id)
    now = (await tenant.memory.GetMemory(request)).memory

    def read(text: str) -> Any:
        return json.loads(text, parse_float=Decimal)

    assert list(now.tags) == ["changed"]
    assert read(now.data_json) == read(now.metadata_json) == read(text)
