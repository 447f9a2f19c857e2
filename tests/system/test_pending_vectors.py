"""While vectors are pending, every answer of a search says of how many items."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fix_cluster import Cluster, Tenant, test_environment
from fix_command import skein
from fix_console import BrowserSession
from fix_mcp import Mcp

from skein.gateway.v1 import gateway_pb2 as pb
from skein.memory.v1 import memory_pb2

QUERY = "spare key"


@asynccontextmanager
async def pending_vector(cluster: Cluster, tenant: Tenant) -> AsyncIterator[None]:
    """Store a memory whose vector cannot be stored until the block ends."""
    name = f"refused_{tenant.tenant_id.hex}"
    async with cluster.superuser() as connection:
        await connection.execute(f"""
            CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''refused''; END';
            CREATE TRIGGER {name} BEFORE INSERT ON recall.embeddings_all_minilm_l6_v2 FOR EACH ROW
            WHEN (NEW.tenant_id = '{tenant.tenant_id}') EXECUTE FUNCTION {name}()
        """)
        try:
            memory = memory_pb2.Memory(content="The spare key hangs behind the clock.")
            await tenant.memory.CreateMemory(memory_pb2.CreateMemoryRequest(memory=memory, defer_embedding=True))
            yield
        finally:
            await connection.execute(f"DROP FUNCTION {name} CASCADE")


async def test_the_gateway_says_how_many_items_have_no_vector_yet(cluster: Cluster, tenant: Tenant) -> None:
    async with pending_vector(cluster, tenant):
        response = await tenant.gateway.Recall(pb.RecallRequest(query=QUERY))
        context = await tenant.gateway.BuildContext(pb.BuildContextRequest(recall=pb.RecallRequest(query=QUERY)))

    assert (len(response.hits), response.pending_embedding_count) == (1, 1)
    assert context.pending_embedding_count == 1


async def test_the_commands_say_how_many_items_have_no_vector_yet(cluster: Cluster, tenant: Tenant) -> None:
    environment = {**test_environment(), "SKEIN_ENDPOINT": cluster.endpoint, "SKEIN_API_KEY": tenant.api_key}

    async with pending_vector(cluster, tenant):
        recalled = await skein("recall", QUERY, environment=environment)
        packed = await skein("context", QUERY, environment=environment)

    assert "Not embedded yet: 1." in recalled.err
    assert "Not embedded yet: 1." in packed.err


async def test_a_model_and_a_reader_of_the_console_see_how_many_items_have_no_vector_yet(
    cluster: Cluster, tenant: Tenant
) -> None:
    async with pending_vector(cluster, tenant):
        async with Mcp.of(cluster.addresses["http"], tenant.api_key, "?toolsets=all") as mcp:
            result = await mcp.ask("tools/call", {"name": "recall", "arguments": {"query": QUERY}})
        async with BrowserSession.of(cluster.addresses["http"]) as browser:
            await browser.show_key(tenant.api_key)
            page = await browser.page("search", q=QUERY)

    assert "Not embedded yet: 1." in result["content"][0]["text"]
    assert "Not embedded yet: 1." in page.text
