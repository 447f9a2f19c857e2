"""Agents that were deleted before deletions kept their ids get them back where nobody took their places."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import asyncpg

from skein_cluster import embedded, registry
from skein_kit.database.schema_migrations import migrate

if TYPE_CHECKING:
    from skein_cluster.embedded.server import Server

NAME = "undelete_directory"
AGENT = """
    INSERT INTO tenancy.agents
        (tenant_id, agent_id, display_name, create_time, update_time, created_by, updated_by, delete_time,
         deleted_agent_id)
    VALUES ($1, $2, $3, now(), now(), 'test', 'test', now() - make_interval(days => $4), $5)
"""


async def test_the_last_deleted_agent_of_a_free_id_gets_it_back(server: Server, template: str) -> None:
    assert template
    name = f"upgrade_{uuid.uuid4().hex}"
    await embedded.create_database(server, name)
    url = server.url(user="postgres", database=name)
    every = registry.migrations()
    number = next(one.number for one in every if one.name == NAME)
    await migrate(url, [one for one in every if one.number < number], registry.WITH_DATABASE)
    connection = await asyncpg.connect(url)
    tenant_id = uuid.uuid4()
    try:
        await connection.execute(
            "INSERT INTO tenancy.organizations (organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, 'o', 'o', now(), now())",
            tenant_id,
        )
        await connection.execute(
            "INSERT INTO tenancy.tenants (tenant_id, organization_id, display_name, slug, create_time, update_time) "
            "VALUES ($1, $1, 't', 't', now(), now())",
            tenant_id,
        )
        rows = [
            ("free 1", "butler, earlier", 9, "butler"),
            ("free 2", "butler, last", 2, "butler"),
            ("free 3", "cook, before", 5, "cook"),
            ("cook", "cook, living", None, None),
        ]
        for row in rows:
            await connection.execute(AGENT, tenant_id, *row)

        await migrate(url, every, registry.WITH_DATABASE)

        found = await connection.fetch(
            "SELECT agent_id, display_name, delete_time IS NOT NULL AS deleted FROM tenancy.agents"
            " WHERE tenant_id = $1 ORDER BY display_name",
            tenant_id,
        )
        assert [tuple(row) for row in found] == [
            ("free 1", "butler, earlier", True),
            ("butler", "butler, last", True),
            ("free 3", "cook, before", True),
            ("cook", "cook, living", False),
        ]
    finally:
        await connection.close()
        await embedded.drop_database(server, name)
