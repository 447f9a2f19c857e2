"""What a database from before holds is searched as before once it is migrated."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster import embedded, registry
from skein_kit.database.schema_migrations import migrate

if TYPE_CHECKING:
    from skein_cluster.embedded.server import Server

# The last file before counts were kept and vectors were split.
BEFORE = 26
TABLES = {384: "embeddings_all_minilm_l6_v2", 1536: "embeddings_wide", 4000: "embeddings_widest"}


async def test_vectors_from_before_are_split_and_documents_are_counted_anew(server: Server, template: str) -> None:
    assert template
    name = f"upgrade_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)
    every = registry.migrations()
    await migrate(url, [one for one in every if one.number <= BEFORE], registry.WITH_DATABASE)
    connection = await asyncpg.connect(url)
    tenant_id, item_id = uuid.uuid4(), uuid.uuid4()
    try:
        await fill(connection, tenant_id, item_id)

        await migrate(url, every, registry.WITH_DATABASE)

        for dimensions, table in TABLES.items():
            row = await connection.fetchrow(
                f"SELECT public.vector_dims(embedding) AS first, public.vector_dims(rest) AS rest, "  # noqa: S608
                f"(embedding::text, rest::text)::text AS text FROM recall.{table} WHERE tenant_id = $1",
                tenant_id,
            )
            assert row is not None
            assert row["first"] == min(dimensions, 1280)
            assert (row["rest"] or 0) == max(0, dimensions - 1280)
            assert row["text"].count("1") == 1
        waiting = "SELECT count(*) FROM recall.documents WHERE tenant_id = $1 AND NOT counted"
        assert await connection.fetchval(waiting, tenant_id) == 1
    finally:
        await connection.close()
        await embedded.drop_database(server, name)


async def fill(connection: asyncpg.Connection[asyncpg.Record], tenant_id: uuid.UUID, item_id: uuid.UUID) -> None:
    """Write one document with a vector of each model, whose last dimension alone is not zero."""
    await connection.execute(
        "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
        "VALUES (gen_random_uuid(), 'o', 'o', now(), now())"
    )
    await connection.execute(
        "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
        "SELECT $1, organization_id, 't', 't', now(), now() FROM tenancy.organizations",
        tenant_id,
    )
    await connection.execute("SELECT recall.register_model('wide', 'caller', 1536, now())")
    await connection.execute("SELECT recall.register_model('widest', 'caller', 4000, now())")
    await connection.execute(
        "INSERT INTO recall.documents (tenant_id, item_id, kind, length, revision) VALUES ($1, $2, 'memory', 3, 1)",
        tenant_id,
        item_id,
    )
    for dimensions, table in TABLES.items():
        await connection.execute(
            f"INSERT INTO recall.{table} (tenant_id, item_id, chunk, kind, embedding) "  # noqa: S608
            "VALUES ($1, $2, 0, 'memory', $3::text::public.halfvec)",
            tenant_id,
            item_id,
            f"[{'0,' * (dimensions - 1)}1]",
        )
