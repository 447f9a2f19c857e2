"""What a restored database still has of later purges: people of the access log, and sessions of a space."""

from __future__ import annotations

import uuid

from fix_database import TestDatabase

from skein_cluster.backup import purged_items
from skein_cluster.backup.deletions import Deletions, read_deletions
from skein_kit.identity.spaces import DEFAULT_SPACE
from skein_memory.tombstones.store import digest_of
from skein_session.tombstones import store as session_names


async def test_a_person_in_the_access_log_of_a_restored_database_is_found(database: TestDatabase) -> None:
    tenant_id, salt = uuid.uuid4(), bytes(32)
    async with database.superuser() as connection:
        # Of the tenant nothing else is needed.
        await connection.execute("SET session_replication_role = replica")
        for seconds, subject_id in enumerate(("ann", "bob")):
            await connection.execute(
                "INSERT INTO memory.access_log (tenant_id, access_event_id, operation, method, principal, subject_id, "
                "item_count, request_id, create_time) VALUES ($1, skein.first_id(now() + make_interval(secs => $3)), "
                "'read', 'ListMemories', 'key:1', $2, 0, '', now())",
                tenant_id,
                subject_id,
                seconds,
            )
        await connection.execute(
            "INSERT INTO memory.tombstone_salts (tenant_id, salt) VALUES ($1, $2)", tenant_id, salt
        )
        await connection.execute(
            "INSERT INTO memory.tombstones (tenant_id, digest, create_time) VALUES ($1, $2, now())",
            tenant_id,
            digest_of(salt, "subject_id", b"ann"),
        )

        result = await purged_items.find_purged(connection, (await read_deletions(connection)).since(Deletions()))

    assert [each.memory_subjects for each in result] == [["ann"]]


async def test_a_session_that_was_purged_in_a_space_is_found_there_and_in_no_other(database: TestDatabase) -> None:
    tenant_id, space_id, salt = uuid.uuid4(), uuid.uuid4(), bytes(32)
    async with database.superuser() as connection:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO tenancy.spaces (tenant_id, space_id, display_name, create_time, update_time, created_by, "
            "updated_by) VALUES ($1, $2, 'doctor', now(), now(), 'x', 'x')",
            tenant_id,
            space_id,
        )
        for place in (DEFAULT_SPACE, space_id):
            await connection.execute(
                "INSERT INTO session.sessions (tenant_id, session_id, space_id, state, session_type, create_time, "
                "update_time, created_by) VALUES ($1, 'visit', $2, 'active', 'conversation', now(), now(), 'x')",
                tenant_id,
                place,
            )
        await connection.execute(
            "INSERT INTO session.tombstone_salts (tenant_id, salt) VALUES ($1, $2)", tenant_id, salt
        )
        await connection.execute(
            "INSERT INTO session.tombstones (tenant_id, digest, create_time) VALUES ($1, $2, now())",
            tenant_id,
            session_names.digest_of(salt, session_names.of_session("visit", space_id)),
        )

        result = await purged_items.find_purged(connection, (await read_deletions(connection)).since(Deletions()))

    assert [(each.space_id, each.session_ids) for each in result] == [(DEFAULT_SPACE, []), (space_id, ["visit"])]
