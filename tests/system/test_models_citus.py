"""Models are registered where Citus distributes tables; a stand-in for its catalog and function records the calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from fix_cluster import refused, running_cluster, test_environment
from fix_database import fresh_database
from fix_models import WORDS
from fix_recall import RecallServer, serving
from fix_receipts import recall_with_receipt
from joserfc.jwk import OKPKey

from skein.recall.v1 import recall_pb2 as pb
from skein_cluster.embedded.server import Server

TABLE = "recall.embeddings_" + WORDS.replace("-", "_")
HISTORY = f"{TABLE}_history"
# What the registration needs of Citus. A table is entered with its keys, which Citus refuses to distribute.
STAND_IN = """
SET allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY, colocated text, keys bigint, mode text);
GRANT SELECT, INSERT ON pg_catalog.pg_dist_partition TO skein_owner;
CREATE FUNCTION pg_catalog.create_distributed_table(
    table_name regclass, distribution_column text, colocate_with text DEFAULT 'default'
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO pg_catalog.pg_dist_partition
    SELECT table_name, colocate_with, count(c.conname), current_setting('citus.multi_shard_modify_mode')
    FROM (SELECT) AS one LEFT JOIN pg_constraint AS c ON c.conrelid = table_name AND c.contype = 'f'
$$;
INSERT INTO pg_catalog.pg_dist_partition VALUES ('recall.documents');
"""
DISTRIBUTED = "SELECT logicalrelid::text, colocated, keys, mode FROM pg_dist_partition WHERE colocated IS NOT NULL"
TRIGGERS = "SELECT tgname FROM pg_trigger WHERE tgrelid = $1::text::regclass AND NOT tgisinternal"
KEYS = "SELECT conname FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'f'"


@pytest.fixture
async def citus_server(server: Server, template: str) -> AsyncIterator[RecallServer]:
    """Run the recall service on a database that looks as if Citus distributed its documents."""
    key = OKPKey.generate_key("Ed25519", parameters={"kid": "test"})
    async with fresh_database(server, template) as database:
        async with database.superuser() as connection:
            await connection.execute(STAND_IN)
            await connection.execute(f"ALTER DATABASE {database.name} SET citus.version = 'stand-in'")
        async with serving(database.url, key, SKEIN_DATABASE_CITUS="true") as service:
            yield service


async def rows(service: RecallServer, query: str, *values: Any) -> list[tuple[Any, ...]]:
    async with service.superuser() as connection:
        return [tuple(row) for row in await connection.fetch(query, *values)]


def request(request_id: str) -> pb.RegisterEmbeddingModelRequest:
    model = pb.EmbeddingModel(model=WORDS, provider="caller", dimensions=64)
    return pb.RegisterEmbeddingModelRequest(request_id=request_id, embedding_model=model)


async def test_a_registered_model_s_vectors_are_distributed_beside_the_documents(citus_server: RecallServer) -> None:
    await citus_server.operator.RegisterEmbeddingModel(request("r1"))

    assert await rows(citus_server, DISTRIBUTED) == [
        (table, "recall.documents", 0, "sequential") for table in (TABLE, HISTORY)
    ]
    assert await rows(citus_server, TRIGGERS, TABLE) == []
    assert await rows(citus_server, KEYS, TABLE) == [(f"{TABLE.removeprefix('recall.')}_document_fkey",)]


async def test_a_repeated_registration_distributes_what_the_first_left(citus_server: RecallServer) -> None:
    first = await citus_server.operator.RegisterEmbeddingModel(request("r1"))
    async with citus_server.superuser() as connection:
        await connection.execute("DELETE FROM pg_catalog.pg_dist_partition WHERE colocated IS NOT NULL")
        await connection.execute(f"ALTER TABLE {TABLE} DROP CONSTRAINT {TABLE.removeprefix('recall.')}_document_fkey")

    again = await citus_server.operator.RegisterEmbeddingModel(request("r1"))
    third = await citus_server.operator.RegisterEmbeddingModel(request("r1"))

    assert first == again == third
    assert [row[0] for row in await rows(citus_server, DISTRIBUTED)] == [TABLE, HISTORY]
    assert len(await rows(citus_server, KEYS, TABLE)) == 1


async def test_a_receipt_is_not_replayed_where_no_former_rows_are_kept(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    environment = test_environment() | {"SKEIN_DATABASE_CITUS": "true"}
    async with running_cluster(tmp_path_factory.mktemp("citus"), environment, form="one") as cluster:
        tenant = await cluster.new_tenant()
        await tenant.set_policy(recall_receipts="all", audit_query_text=True)
        await tenant.remember("The kettle belongs to the mill.")
        response = await recall_with_receipt(tenant, "whose is the kettle?", min_relevance=0)

        with refused(grpc.StatusCode.FAILED_PRECONDITION, "HISTORY_NOT_KEPT"):
            await tenant.recall.ReplayRecall(pb.ReplayRecallRequest(receipt_id=response.receipt_id))
