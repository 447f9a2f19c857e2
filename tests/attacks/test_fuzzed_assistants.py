"""Messages of any kind to every port of the assistants.

Attack: valid requests with odd values, in other encodings, in any number of frames, and bytes of any kind.
May be seen: one answer to each, in the form of the port's dialect; nothing of another tenant, nothing of the inside.
May be spent: no row of another tenant changes, and an honest peer beside it is answered.
"""

from __future__ import annotations

import io
import json
import os
import zlib

import asyncpg
import pytest
from fix_attacks import attack_size
from fix_cluster import Cluster, Tenant
from fix_pc2 import HEALTH_PORTS, MAIN_PORTS, Assistant
from fix_pc2_fuzzing import assert_answered, collect_errors, messages
from fix_rows import rows_of

from skein.memory.v1 import memory_pb2
from skein.session.v1 import session_pb2

# Another seed makes other messages.
SEED = int(os.environ.get("SKEIN_ATTACKS_SEED", "0"))
PORTS = (*MAIN_PORTS, 7240, 5598, *HEALTH_PORTS, 6583)
MARKER = "the-heron-of-another-tenant"


async def create_rows(tenant: Tenant, content: str) -> dict[str, str]:
    """Create the rows that messages name; return their ids."""
    session = (await tenant.sessions.CreateSession(session_pb2.CreateSessionRequest())).session
    created = [
        await tenant.memory.CreateMemory(
            memory_pb2.CreateMemoryRequest(memory=memory_pb2.Memory(content=f"{content} {number}"))
        )
        for number in range(2)
    ]
    first, second = (one.memory.memory_id for one in created)
    return {"memory_id": first, "other_memory_id": second, "session_id": session.session_id}


@pytest.mark.system
@pytest.mark.essential
@pytest.mark.timeout(3600)
async def test_no_message_finds_a_defect_or_anything_of_another_tenant(
    cluster: Cluster, tenant: Tenant, assistant: Assistant, log: io.StringIO
) -> None:
    victim = await cluster.new_tenant()
    others = list((await create_rows(victim, MARKER)).values())
    connection = await asyncpg.connect(dsn=cluster.postgres.url(user="postgres", database="skein"))
    before = await rows_of(connection, victim.tenant_id)

    errors_found: list[str] = []
    for port in PORTS:
        existing_ids = await create_rows(tenant, "kettle")
        number = SEED + zlib.crc32(str(port).encode())
        sent_messages = messages(port, existing_ids, others, attack_size(3, 60), number)
        errors_found += await collect_errors(assistant, sent_messages, MARKER)
        await assert_answered(assistant, port)

    after = await rows_of(connection, victim.tenant_id)
    await connection.close()
    assert errors_found == []
    assert after == before
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line for line in lines if line["event"] == "internal_error"] == []
    await assistant.create("honest")
