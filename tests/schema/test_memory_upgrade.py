"""What a database from before says of memories holds once it is migrated, also for a version from before."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster import embedded, registry
from skein_kit.database.connection_settings import connect_arguments, database_role
from skein_kit.database.schema_migrations import migrate

if TYPE_CHECKING:
    from skein_cluster.embedded.server import Server

# The last file before keys of facts were told apart by subject.
BEFORE = 36
FACTS = [
    # Key, subject, whether it holds the key afterwards.
    ("Phone", "ann", True),
    ("phone", "bob", True),
    ("PHONE", "bob", False),
    ("Town", None, True),
    ("town", None, False),
    ("Über", None, True),
    ("über", None, False),
]
# What a service of the version before takes a key with.
CLAIM = (
    "INSERT INTO memory.fact_keys (tenant_id, key, memory_id) VALUES ($1, $2, $3) "
    "ON CONFLICT ON CONSTRAINT fact_keys_pkey DO NOTHING"
)


async def test_facts_from_before_hold_their_keys_by_subject_the_oldest_of_those_alike(
    server: Server, template: str
) -> None:
    assert template
    name = f"upgrade_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)
    every = registry.migrations()
    await migrate(url, [one for one in every if one.number <= BEFORE], registry.WITH_DATABASE)
    connection = await asyncpg.connect(url)
    tenant_id, ids = uuid.uuid4(), [uuid.UUID(int=number + 1) for number in range(len(FACTS) + 2)]
    try:
        await fill(connection, tenant_id, ids)

        await migrate(url, every, registry.WITH_DATABASE)

        held = await connection.fetch("SELECT memory_id, subject_id, key FROM memory.fact_keys ORDER BY memory_id")
        service = await asyncpg.connect(**connect_arguments(url, database_role("memory")))
        await service.execute(f"SET skein.tenant_id = '{tenant_id}'")
        claimed = [
            await service.execute(CLAIM, tenant_id, key, id_)
            for key, id_ in zip(("town", "tea"), ids[-2:], strict=True)
        ]
        await service.close()
    finally:
        await connection.close()
        await embedded.drop_database(server, name)

    assert [tuple(row) for row in held] == [
        (id_, subject, key) for id_, (key, subject, holds) in zip(ids, FACTS, strict=False) if holds
    ]
    assert claimed == ["INSERT 0 0", "INSERT 0 1"]


async def fill(
    connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID, memory_ids: list[uuid.UUID]
) -> None:
    """Write facts as the version before does, and two without a key."""
    await connection.execute(
        "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
        "VALUES (gen_random_uuid(), 'o', 'o', now(), now())"
    )
    await connection.execute(
        "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
        "SELECT $1, organization_id, 't', 't', now(), now() FROM tenancy.organizations",
        tenant_id,
    )
    facts = [*((key, subject) for key, subject, _ in FACTS), (None, None), (None, None)]
    for id_, (key, subject) in zip(memory_ids, facts, strict=True):
        await connection.execute(
            "INSERT INTO memory.entries (tenant_id, memory_id, type, key, subject_id, content, scope, level, "
            "confidence, importance, content_hash, create_time, update_time, created_by, updated_by) "
            "VALUES ($1, $2, 'fact', $3, $4, 'x', 'global', 'operational', 1, 1, '', now(), now(), 'x', 'x')",
            tenant_id,
            id_,
            key,
            subject,
        )
        if key is not None:
            await connection.execute(
                "INSERT INTO memory.fact_keys (tenant_id, key, memory_id) VALUES ($1, $2, $3)", tenant_id, key, id_
            )
