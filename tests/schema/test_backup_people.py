"""A person whom only the access log still names is erased again after a restore."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from skein_cluster.backup import purged_items
from skein_cluster.backup.deletions import Deletions, read_deletions
from skein_memory.tombstones.store import digest_of

if TYPE_CHECKING:
    from fix_database import TestDatabase


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
