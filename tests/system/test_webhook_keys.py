"""The keys that webhooks are signed with follow the master key, and go with their tenant."""

from __future__ import annotations

from fix_memory import MemoryServer

from skein.memory.v1 import history_pb2_grpc, memory_pb2, memory_pb2_grpc, webhooks_pb2

OLD, NEW = "1a" * 32, "2b" * 32
CURRENT, PREVIOUS = "SKEIN_MASTER_KEY", "SKEIN_MASTER_KEY_PREVIOUS"


async def create_webhook(memory_server: MemoryServer) -> None:
    made = webhooks_pb2.Webhook(display_name="quiet", event_types=["*"], webhook_url="https://example.com/hook")
    async with memory_server.channel() as channel:
        await history_pb2_grpc.HistoryServiceStub(channel).CreateWebhook(
            webhooks_pb2.CreateWebhookRequest(webhook=made)
        )


async def counted(memory_server: MemoryServer) -> list[int]:
    rows = await memory_server.rows("SELECT key_count FROM memory.master_keys ORDER BY key_count")
    return [row["key_count"] for row in rows]


async def test_a_webhook_that_delivers_nothing_comes_under_the_new_master_key_too(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**{CURRENT: OLD}):
        await create_webhook(memory_server)
    async with memory_server.serving(**{CURRENT: NEW, PREVIOUS: OLD}), memory_server.channel(system=True) as system:
        await memory_pb2_grpc.MemoryInternalServiceStub(system).DeleteExpired(memory_pb2.DeleteExpiredRequest())

    assert await counted(memory_server) == [0, 1]
    # The old one is needed no more.
    async with memory_server.serving(**{CURRENT: NEW}):
        pass


async def test_a_deleted_tenant_s_webhooks_hold_no_master_key_in_use(memory_server: MemoryServer) -> None:
    async with memory_server.serving(**{CURRENT: OLD}), memory_server.channel(system=True, closed=True) as system:
        await create_webhook(memory_server)
        await create_webhook(memory_server)
        await memory_pb2_grpc.MemoryInternalServiceStub(system).PurgeTenant(memory_pb2.PurgeTenantRequest(limit=100))

    assert await counted(memory_server) == [0]
    async with memory_server.serving():
        pass
