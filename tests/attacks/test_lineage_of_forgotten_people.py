"""Attack: what a person said is carried on in memories that were made of it, and read there after the Forget.
May be seen: nothing. A memory about another person stays, and the answer and the certificate name it.
May be spent: one Forget.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from fix_calls import USER, all_pages, stamp
from fix_cluster import Cluster, Tenant
from fix_lineage import MESSAGE, create, of, replace_sources
from fix_marker import files_with, places_of

from skein.auth.v1 import certificates_pb2
from skein.gateway.v1 import gateway_pb2
from skein.memory.v1 import archives_pb2, memory_pb2, snapshots_pb2
from skein.memory.v1.memory_pb2 import SCOPE_USER, SourceReference
from skein.session.v1 import session_pb2, states_pb2

if TYPE_CHECKING:
    from fix_marker import Connection

WORD = "zirbelnuss"


async def about_alice(tenant: Tenant) -> memory_pb2.Memory:
    return await create(tenant, f"Alice eats {WORD}", scope=SCOPE_USER, subject_id="alice")


async def said_by_alice(tenant: Tenant, *, session_of: str = "alice") -> SourceReference:
    session = await tenant.create_session(f"s {uuid.uuid4()}", subject_id=session_of)
    said = session_pb2.Message(role=USER, content=f"I eat {WORD}", subject_id="alice")
    (message,) = await tenant.append(session.session_id, said)
    return SourceReference(kind=MESSAGE, id=message.message_id)


async def statement(tenant: Tenant, response: gateway_pb2.ForgetResponse) -> dict[str, object]:
    request = certificates_pb2.GetErasureCertificateRequest(certificate_id=response.certificate_id)
    document = (await tenant.auth.GetErasureCertificate(request)).certificate.document
    content: dict[str, object] = json.loads(document)["certificate"]
    return content


@pytest.mark.system
async def test_what_was_made_of_a_persons_memory_goes_with_it_to_the_end_of_the_chain(
    tenant: Tenant, connection: Connection
) -> None:
    first = await create(tenant, f"Somebody eats {WORD}", of(await about_alice(tenant)))
    await create(tenant, f"They buy {WORD}", of(first))

    response = await tenant.forget("alice")

    assert await places_of(connection, WORD) == []
    assert await tenant.list_memories() == []
    assert not response.remaining_memory_ids
    assert next(one for one in response.erasures if one.service == "memory").deleted_counts["memory.memories"] == 3


@pytest.mark.system
@pytest.mark.parametrize("session_of", ["alice", "bob"])
async def test_what_was_made_of_a_persons_message_goes_with_it(
    tenant: Tenant, connection: Connection, session_of: str
) -> None:
    summary = await create(tenant, f"They eat {WORD}", await said_by_alice(tenant, session_of=session_of))
    await create(tenant, f"Somebody buys {WORD}", of(summary))

    await tenant.forget("alice")

    assert await places_of(connection, WORD) == []
    assert await tenant.list_memories() == []


@pytest.mark.system
async def test_a_purge_of_sessions_that_ended_there_is_followed_by_the_next_forget(tenant: Tenant) -> None:
    await create(tenant, f"They eat {WORD}", await said_by_alice(tenant))
    await tenant.sessions.PurgeSubject(states_pb2.PurgeSubjectRequest(subject_id="alice"))

    await tenant.forget("alice")

    assert await tenant.list_memories() == []


@pytest.mark.system
async def test_sources_that_a_member_takes_out_of_the_lineage_are_followed(
    tenant: Tenant, connection: Connection
) -> None:
    copy = await create(tenant, f"Somebody eats {WORD}", of(await about_alice(tenant)))
    await replace_sources(tenant, copy)

    await tenant.forget("alice")

    assert await places_of(connection, WORD) == []
    assert await tenant.list_memories() == []


@pytest.mark.system
async def test_a_memory_about_another_person_stays_and_is_named(tenant: Tenant) -> None:
    kept = await create(tenant, "Bob is allergic to nuts", await said_by_alice(tenant), subject_id="bob")
    other = await create(tenant, "Bob never eats nuts", of(await about_alice(tenant)), subject_id="bob")

    response = await tenant.forget("alice")

    assert [memory.memory_id for memory in await tenant.list_memories()] == [other.memory_id, kept.memory_id]
    assert sorted(response.remaining_memory_ids) == sorted([kept.memory_id, other.memory_id])
    assert (await statement(tenant, response))["remaining_memory_ids"] == sorted([kept.memory_id, other.memory_id])
    assert not (await tenant.forget("alice")).remaining_memory_ids


async def test_a_memory_that_was_about_the_person_is_named(tenant: Tenant) -> None:
    moved = await create(tenant, "The cat sleeps", subject_id="alice")
    await tenant.update_memory(moved.memory_id, subject_id="bob")

    response = await tenant.forget("alice")

    assert list(response.remaining_memory_ids) == [moved.memory_id]


@pytest.mark.system
async def test_a_snapshot_brings_nothing_back_that_was_made_of_a_forgotten_person(
    tenant: Tenant, connection: Connection
) -> None:
    copy = await create(tenant, f"Somebody eats {WORD}", of(await about_alice(tenant)))
    snapshot = (await tenant.snapshots.CreateSnapshot(snapshots_pb2.CreateSnapshotRequest(label="s"))).snapshot
    await tenant.delete_memory(copy.memory_id)

    await tenant.forget("alice")
    restore = snapshots_pb2.RestoreSnapshotRequest(snapshot_id=snapshot.snapshot_id)
    assert await all_pages(tenant.snapshots.RestoreSnapshot, restore, "errors") == []

    assert await places_of(connection, WORD) == []
    assert await tenant.list_memories() == []


@pytest.mark.system
async def test_cold_storage_keeps_nothing_that_was_made_of_a_forgotten_person(
    tenant: Tenant, cluster: Cluster, connection: Connection
) -> None:
    source, long_ago = await said_by_alice(tenant), stamp(datetime(2020, 1, 1, tzinfo=UTC))
    first = await create(tenant, f"They eat {WORD}", source, session_id="cold", create_time=long_ago)
    await create(tenant, f"They buy {WORD}", of(first), session_id="cold", create_time=long_ago)
    kept = await create(tenant, "Bob eats nuts", source, session_id="cold", create_time=long_ago, subject_id="bob")
    archives = archives_pb2.ArchiveMemoriesRequest(session_id="cold", idle_since_time=datetime.now(UTC))
    assert (await tenant.history.ArchiveMemories(archives)).archive.memory_count == 3
    assert files_with(cluster, WORD)

    response = await tenant.forget("alice")

    assert files_with(cluster, WORD) == []
    assert await places_of(connection, WORD) == []
    assert list(response.remaining_memory_ids) == [kept.memory_id]


async def test_what_was_made_beside_a_person_stays(tenant: Tenant) -> None:
    await about_alice(tenant)
    origin = await create(tenant, "The office opens at nine", scope=SCOPE_USER, subject_id="bob")
    kept = await create(tenant, "Somebody opens the office", of(origin))

    response = await tenant.forget("alice")

    assert [memory.memory_id for memory in await tenant.list_memories()] == [kept.memory_id, origin.memory_id]
    assert not response.remaining_memory_ids


async def test_a_purged_message_leaves_no_place_of_its_words(tenant: Tenant, connection: Connection) -> None:
    message = await said_by_alice(tenant)
    quote = SourceReference(kind=MESSAGE, id=message.id, start_character=2, end_character=5)
    memory = await create(tenant, "Somebody eats.", quote)
    await create(tenant, "Somebody eats again.", quote)
    changed = memory_pb2.Memory(memory_id=memory.memory_id, derived_from=[message])
    await tenant.memory.UpdateMemory(
        memory_pb2.UpdateMemoryRequest(memory=changed, update_mask={"paths": ["derived_from"]})
    )

    await tenant.sessions.PurgeMessages(states_pb2.PurgeMessagesRequest(message_ids=[message.id]))

    rows = await connection.fetch(
        "SELECT end_character, erased_trust FROM memory.sources WHERE tenant_id = $1 AND kind = 'message' "
        "UNION ALL SELECT end_character, erased_trust FROM memory.sources_history "
        "WHERE tenant_id = $1 AND kind = 'message'",
        tenant.tenant_id,
    )
    assert [row["end_character"] for row in rows] == [None] * len(rows)
    assert all(row["erased_trust"] is not None for row in rows)
    assert rows
