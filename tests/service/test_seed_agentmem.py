"""What AgentMem's tables mean here: audit columns, defaults and soft deletion of every kind of row."""

from __future__ import annotations

import pytest
from fix_cluster import Cluster, Stubs, Tenant
from fix_seeds import KINDS, audit_faults, memories

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import memory_pb2


async def second_caller(cluster: Cluster, tenant: Tenant) -> Stubs:
    """Return calls with another key of the tenant."""
    key = await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="second"))
    return cluster.with_key(key.secret)


@pytest.mark.system
async def test_every_row_tells_when_and_by_whom_it_was_created_and_last_changed(
    cluster: Cluster, tenant: Tenant
) -> None:
    second = await second_caller(cluster, tenant)
    kinds = ("subject", "agent", "message", "block", "tool", "memory")

    assert await audit_faults(kinds, tenant, second) == []
    assert await audit_faults(["organization"], cluster.operator, cluster.operator) == []


async def test_a_new_memory_has_no_metadata_no_reads_no_deletion_and_a_hash_of_64_digits(tenant: Tenant) -> None:
    (memory,) = await memories(tenant, "the kettle whistles", type="episodic")

    assert (dict(memory.metadata), memory.access_count) == ({}, 0)
    assert not memory.HasField("last_access_time")
    assert not memory.HasField("delete_time")
    assert (len(memory.content_hash), set(memory.content_hash) <= set("0123456789abcdef")) == (64, True)
    assert (memory.type, memory.scope, memory.level, memory.importance) == (
        "episodic", memory_pb2.SCOPE_GLOBAL, memory_pb2.LEVEL_OPERATIONAL, 0.5,
    )  # fmt: skip


async def test_a_new_block_is_no_template_and_has_no_subject(tenant: Tenant) -> None:
    block = await KINDS["block"].create(tenant)

    assert (block.is_template, block.template_name, block.subject_id, block.description) == (False, "", "", "")
    assert (block.limit, dict(block.metadata), block.HasField("delete_time")) == (2000, {}, False)
