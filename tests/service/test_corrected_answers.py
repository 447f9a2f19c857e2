"""A stored answer that a purge has emptied stays empty, whatever becomes known of the request later."""

from __future__ import annotations

from uuid import UUID

from fix_database import TestDatabase
from fix_memory import MemoryServer

from skein.memory.v1 import memory_pb2 as pb
from skein_kit.database.transactions import Database
from skein_kit.idempotency.store import IdempotencyKey, IdempotencyStore

ONCE = IdempotencyKey(
    principal="api_key:1", method="skein.memory.v1.CreateMemoryRequest", request_id="r", fingerprint=b"f"
)
ANSWER = pb.CreateMemoryResponse(memory=pb.Memory(content="a secret"), embedding_pending=True)
CORRECTED = pb.CreateMemoryResponse(memory=pb.Memory(content="a secret"))


async def answered(pool: Database, tenant_id: UUID) -> pb.CreateMemoryResponse | None:
    async with pool.transaction(tenant_id) as tx:
        write = await IdempotencyStore(pool, "memory").claim(tx, tenant_id, ONCE, response=ANSWER.SerializeToString())
    first = write.saved_response
    return None if first is None else pb.CreateMemoryResponse.FromString(first)


async def correct(pool: Database, tenant_id: UUID) -> None:
    async with pool.transaction(tenant_id) as tx:
        await IdempotencyStore(pool, "memory").replace(tx, tenant_id, ONCE, CORRECTED.SerializeToString())


async def test_an_answer_is_corrected_unless_it_was_emptied(
    memory_server: MemoryServer, database: TestDatabase
) -> None:
    async with Database.open(database.url, service="memory", size=1, timeout=30.0) as pool:
        assert await answered(pool, memory_server.tenant_id) is None
        await correct(pool, memory_server.tenant_id)
        assert await answered(pool, memory_server.tenant_id) == CORRECTED

        # As a purge does.
        await memory_server.rows("UPDATE memory.requests SET response = ''")
        await correct(pool, memory_server.tenant_id)

        assert await answered(pool, memory_server.tenant_id) == pb.CreateMemoryResponse()
