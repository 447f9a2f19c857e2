"""Page tokens: a cluster takes only those that it made, for this caller, this call and this question."""

from __future__ import annotations

import base64
import hashlib
import json

import grpc
import pytest
from fix_cluster import Cluster, Tenant, refused

from skein.auth.v1 import auth_pb2
from skein.memory.v1 import history_pb2, memory_pb2, snapshots_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture
async def page_token(tenant: Tenant) -> str:
    """The token of the second page of two memories."""
    for content in ("kettle", "teapot"):
        await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=content)))
    listed = await tenant.memory.ListMemories(memory_pb2.ListMemoriesRequest(page_size=1))
    return listed.next_page_token


def listing(page_token: str) -> memory_pb2.ListMemoriesRequest:
    return memory_pb2.ListMemoriesRequest(page_size=1, page_token=page_token)


@pytest.mark.parametrize("place", [[], ["0"], ["memories", ""], ["9999-12-31T23:59:59+14:00", "x"]], ids=str)
async def test_public_facts_are_not_enough_to_begin_an_export_in_its_middle(tenant: Tenant, place: list[str]) -> None:
    request = snapshots_pb2.ExportDataRequest()
    facts = f"{tenant.tenant_id}|{request.DESCRIPTOR.full_name}|".encode() + request.SerializeToString()
    unkeyed = json.dumps([hashlib.sha256(facts).hexdigest()[:16], *place]).encode()
    guessed = bytes(16) + json.dumps(place).encode()

    for forged in (unkeyed, guessed):
        token = base64.urlsafe_b64encode(forged).decode()
        with refused(INVALID, "PAGE_TOKEN_INVALID"):
            await tenant.snapshots.ExportData(snapshots_pb2.ExportDataRequest(page_token=token))

    changes = (await tenant.history.ListChanges(history_pb2.ListChangesRequest())).changes
    assert "data_exported" not in {change.event_type for change in changes}


@pytest.mark.system
async def test_a_token_in_which_any_byte_differs_is_refused(tenant: Tenant, page_token: str) -> None:
    signed = base64.urlsafe_b64decode(page_token)

    for place in range(len(signed)):
        altered = bytearray(signed)
        altered[place] ^= 1
        with refused(INVALID, "PAGE_TOKEN_INVALID"):
            await tenant.memory.ListMemories(listing(base64.urlsafe_b64encode(altered).decode()))

    assert len((await tenant.memory.ListMemories(listing(page_token))).memories) == 1


async def test_a_token_of_another_key_of_the_tenant_is_refused(
    cluster: Cluster, tenant: Tenant, page_token: str
) -> None:
    other_key = (await tenant.auth.CreateApiKey(auth_pb2.CreateApiKeyRequest(display_name="other"))).secret

    with refused(INVALID, "PAGE_TOKEN_INVALID"):
        await cluster.with_key(other_key).memory.ListMemories(listing(page_token))
